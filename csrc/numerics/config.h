// The macros of the numerics room. REPROCUDA_HD: functions that run on the host and on a device alike. REPROCUDA_ROLLED,
// before a loop: device code keeps it a loop, since unrolling the rare exact path would cost the registers of the common one.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define REPROCUDA_HD __host__ __device__ __forceinline__
#else
#define REPROCUDA_HD inline
#endif

#ifdef __CUDA_ARCH__
#define REPROCUDA_ROLLED _Pragma("unroll 1")
#else
#define REPROCUDA_ROLLED
#endif
