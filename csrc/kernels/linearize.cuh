// Several index tensors, broadcast against each other, to one row number for every position.
//
// What: keys[e] = sum over k of wrap(index_k[e]) * multipliers[k].
// Guarantee: an index outside [-size, size) is printed and traps before anything is written with it.
// Cost: one pass: reads every index once, writes 8 bytes a key. One launch.
#pragma once

#include <cstdio>

#include "../problems/linearization.h"
#include "device.cuh"

namespace reprocuda {

inline constexpr int kLinearizeThreads = 256;

__global__ void __launch_bounds__(kLinearizeThreads)
    linearize_index(const __grid_constant__ IndexLinearization problem) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < problem.num_elements; e += step) {
    int64_t key = 0;
    for (int k = 0; k < problem.num_indices; ++k) {
      int64_t offset = 0;
      int64_t rest = e;
      for (int d = problem.ndim - 1; d >= 0; --d) {
        offset += rest % problem.sizes[d] * problem.strides[k][d];
        rest /= problem.sizes[d];
      }
      const int64_t size = problem.dim_sizes[k];
      int64_t value = problem.is_int64[k] ? static_cast<const int64_t*>(problem.indices[k])[offset]
                                          : static_cast<const int32_t*>(problem.indices[k])[offset];
      if (value < -size || value >= size) {
        printf("reprocuda: index %lld at position %lld is out of bounds for a dimension of size %lld\n",
               static_cast<long long>(value), static_cast<long long>(e), static_cast<long long>(size));
        __trap();
      }
      value += value < 0 ? size : 0;
      key += value * problem.multipliers[k];
    }
    problem.keys[e] = key;
  }
}

}  // namespace reprocuda
