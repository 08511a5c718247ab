#include "elementary.h"

#include "../parallel.h"
#include "../vectors/isa.h"
#include "elementary_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread

template <class T>
MapElements<T> selected_kernel() {
  switch (selected_isa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return avx512::map_kernel<T>();
    case Isa::kAvx2: return avx2::map_kernel<T>();
#endif
    default: return portable::map_kernel<T>();
  }
}

template <class T>
void map_as(const ElementaryMap& problem) {
  const T* in = static_cast<const T*>(problem.in);
  T* out = static_cast<T*>(problem.out);
  const MapElements<T> kernel = selected_kernel<T>();
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
