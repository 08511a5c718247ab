// exp, log and sqrt for every instruction set.
#include "elementary_kernel.h"

#define REPROCUDA_KERNELS "cpu/elementary/elementary.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

template <class T>
MapElements<T> map_kernel() {
  return with_isa([](auto isa) { return map_kernel<T>(isa); });
}
template MapElements<float> map_kernel<float>();
template MapElements<double> map_kernel<double>();
template MapElements<Half> map_kernel<Half>();
template MapElements<BFloat16> map_kernel<BFloat16>();

}  // namespace reprocuda::cpu
