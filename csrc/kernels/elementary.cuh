// exp, log and sqrt of every element (numerics/elementary.h).
//
// Guarantee: the CPU's bits, whatever the launch: an element depends on no other.
// Cost: one pass, some 40 float64 operations an element; one launch.
#pragma once

#include "../problems/elementary.h"
#include "../numerics/rounding.h"
#include "device.cuh"

namespace reprocuda {

inline constexpr int kElementaryThreads = 256;

template <Elementary kFunction, class T>
__global__ void __launch_bounds__(kElementaryThreads) elementary_map(const T* in, T* out, int64_t count) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) {
    out[i] = round_to<T>(elementary<kFunction>(to_double(in[i])));
  }
}

}  // namespace reprocuda
