// The one macro of the numerics room: functions that run on the host and on a device alike.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define REPROCUDA_HD __host__ __device__ __forceinline__
#else
#define REPROCUDA_HD inline
#endif
