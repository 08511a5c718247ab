// The vector kernels for x86-64 processors with AVX-512 F, DQ, BW and VL.
#include "sums_kernel_includes.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
namespace reprocuda::cpu::avx512 {

inline constexpr int kLanes = 8;

#include "kernels.inl"

}  // namespace reprocuda::cpu::avx512
#pragma GCC pop_options
#endif
