// How many blocks a launch gets.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reprocuda::cuda {

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

inline unsigned blocks_for(int64_t items, int64_t items_per_block, int64_t most) {
  return static_cast<unsigned>(std::clamp<int64_t>(ceil_div(items, items_per_block), 1, std::max<int64_t>(most, 1)));
}

}  // namespace reprocuda::cuda
