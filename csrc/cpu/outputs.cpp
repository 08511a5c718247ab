#include "outputs.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "parallel.h"

namespace reprocuda::cpu {

void fill_untouched(void* out, const void* self, int64_t bytes) {
  if (self == out) return;
  constexpr int64_t kPieceBytes = 1 << 18;
  std::byte* const to = static_cast<std::byte*>(out);
  const std::byte* const from = static_cast<const std::byte*>(self);
  run_tasks(workers_for(bytes, kPieceBytes), (bytes + kPieceBytes - 1) / kPieceBytes, [&](int, int64_t piece) {
    const int64_t begin = piece * kPieceBytes;
    const int64_t size = std::min(kPieceBytes, bytes - begin);
    if (from == nullptr) {
      std::memset(to + begin, 0, size);
    } else {
      std::memcpy(to + begin, from + begin, size);
    }
  });
}

void fill_untouched(const Accumulation& problem) {
  const int64_t outputs = problem.outer * problem.num_targets * problem.inner;
  fill_untouched(problem.out, problem.self, outputs * element_size(problem.dtype));
}

}  // namespace reprocuda::cpu
