// The vector kernels for x86-64 processors with AVX-512 F, DQ, BW and VL.
#include "../vectors/kernel_includes.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma,f16c")
namespace reprocuda::cpu::avx512 {

inline constexpr int kLanes = 8;

#include "../vectors/lanes.inl"
#include "reducers.inl"
#include "keyed.inl"
#include "cells.inl"
#include "reduced_cells.inl"
#include "rows_kernel.inl"
#include "rows_single.inl"
#include "pairs.inl"
#include "binned.inl"
#include "rows_entry.inl"
#include "../fingerprint/fingerprint.inl"

}  // namespace reprocuda::cpu::avx512
#pragma GCC pop_options
#endif
