#include "elementary.h"

#include "../parallel.h"
#include "elementary_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread

template <class T>
void map_as(const ElementaryMap& problem) {
  const T* in = static_cast<const T*>(problem.in);
  T* out = static_cast<T*>(problem.out);
  const MapElements<T> kernel = map_kernel<T>();
  parallel_for(0, problem.count, kGrain, [&](int64_t first, int64_t last) {
    const RoundingScope environment(RoundingMode::kNearest);
    kernel(problem.function, in + first, out + first, last - first);
  });
}

}  // namespace

void map(const ElementaryMap& problem) {
  switch (problem.dtype) {
    case Dtype::kFloat16: return map_as<Half>(problem);
    case Dtype::kBFloat16: return map_as<BFloat16>(problem);
    case Dtype::kFloat32: return map_as<float>(problem);
    case Dtype::kFloat64: return map_as<double>(problem);
    default: return;
  }
}

}  // namespace reprocuda::cpu
