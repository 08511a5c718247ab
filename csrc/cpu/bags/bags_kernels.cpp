// The vector kernels of sums over bags for every instruction set.
#include "bags_kernel.h"

#define REPROCUDA_KERNELS "cpu/bags/bags.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

template <class T>
BagKernels<T> bag_kernels() {
  return with_isa([](auto isa) { return bag_kernels<T>(isa); });
}
template BagKernels<double> bag_kernels();
template BagKernels<float> bag_kernels();
template BagKernels<Half> bag_kernels();
template BagKernels<BFloat16> bag_kernels();

}  // namespace reprocuda::cpu
