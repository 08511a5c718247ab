// Compiles the kernel source that REPROCUDA_KERNELS names once for every instruction set, each in its namespace and under its
// target options: for families whose kernels are small enough for one file.
#include "kernel_includes.h"

// The lanes are in namespaces of their own: every file that includes them compiles them for itself.
namespace reprocuda::cpu::portable {
namespace {
inline constexpr int kLanes = 2;
#include "lanes.inl"
#include "widening.inl"
}  // namespace
#include REPROCUDA_KERNELS
}  // namespace reprocuda::cpu::portable

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace reprocuda::cpu::avx2 {
namespace {
inline constexpr int kLanes = 4;
#include "lanes.inl"
#include "widening.inl"
}  // namespace
#include REPROCUDA_KERNELS
}  // namespace reprocuda::cpu::avx2
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
namespace reprocuda::cpu::avx512 {
namespace {
inline constexpr int kLanes = 8;
#include "lanes.inl"
#include "widening.inl"
}  // namespace
#include REPROCUDA_KERNELS
}  // namespace reprocuda::cpu::avx512
#pragma GCC pop_options
#endif
