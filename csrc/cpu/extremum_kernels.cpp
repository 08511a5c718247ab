// The vector kernel of extrema by rows, for every instruction set: it is small enough for one file.
#include "extremum_kernel.h"

namespace reprocuda::cpu::portable {
#include "extremum.inl"
}  // namespace reprocuda::cpu::portable

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprocuda::cpu::avx2 {
#include "extremum.inl"
}  // namespace reprocuda::cpu::avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
namespace reprocuda::cpu::avx512 {
#include "extremum.inl"
}  // namespace reprocuda::cpu::avx512
#pragma GCC pop_options
#endif
