// The vector kernels for x86-64 processors with AVX2, FMA and F16C.
#include "sums_kernel_includes.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprocuda::cpu::avx2 {

inline constexpr int kLanes = 4;

#include "kernels.inl"

}  // namespace reprocuda::cpu::avx2
#pragma GCC pop_options
#endif
