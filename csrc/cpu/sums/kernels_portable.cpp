// The vector kernels for every processor, in vectors of 128 bits.
#include "sums_kernel_includes.h"

namespace reprocuda::cpu::portable {

inline constexpr int kLanes = 2;

#include "kernels.inl"

}  // namespace reprocuda::cpu::portable
