#include "outputs.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "parallel.h"

namespace reprocuda::cpu {

int64_t dtype_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8:
    case Dtype::kBool: return 1;
    case Dtype::kInt16:
    case Dtype::kFloat16:
    case Dtype::kBFloat16: return 2;
    case Dtype::kInt32:
    case Dtype::kFloat32: return 4;
    case Dtype::kInt64:
    case Dtype::kFloat64: return 8;
  }
  return 0;
}

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
  fill_untouched(problem.out, problem.self, outputs * dtype_size(problem.dtype));
}

}  // namespace reprocuda::cpu
