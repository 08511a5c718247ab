// The vector kernels of integer sums in a window of bits for every instruction set.
#include "../../numerics/fixed_point.h"
#include "fixed_bins_kernel.h"

#define REPROCUDA_KERNELS "cpu/sums/fixed_bins.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

FixedBinsKernels fixed_bins_kernels() {
  return with_isa([](auto isa) { return fixed_bins_kernels(isa); });
}

}  // namespace reprocuda::cpu
