// The most dimensions that a problem with strides has, once neighbours that one stride serves are merged.
#pragma once

#include <cstdint>

namespace reprocuda {

inline constexpr int kMaxDims = 16;

}  // namespace reprocuda
