// The bin of every point, and how many points lie in each, by torch's own rule (numerics/bin_search.h).
//
// What: histogram_find_bins writes a number a point; histogram_count adds up points, block by block in shared memory where the
// bins fit, else at once in the result.
// Guarantee: the same bits for any schedule: counts are integers.
// Cost: one read of the points; 2 graph nodes with the clearing of the counts; no temporary memory.
#pragma once

#include "../numerics/bin_search.h"
#include "device.cuh"

namespace reprocuda {

inline constexpr int kHistogramThreads = 256;
inline constexpr int kMaxHistogramDims = 32;
inline constexpr int64_t kMaxSharedBins = 8192;  // 32 KiB of counts

struct HistogramEdges {
  const void* edges[kMaxHistogramDims];
  int64_t num_edges[kMaxHistogramDims];
  int num_dims;
  int64_t num_bins;
};

template <class T, BinSearch kSearch>
struct PointBins {
  HistogramEdges in;
  const T* points;  // [num_points, num_dims]
  int64_t num_points;

  __device__ int64_t operator[](int64_t i) const {
    return bin_of_point<T, kSearch>(points + i * in.num_dims, in.edges, in.num_edges, in.num_dims, in.num_bins);
  }
};

template <class Points>
__global__ void __launch_bounds__(kHistogramThreads) histogram_find_bins(const __grid_constant__ Points bins, int64_t* keys) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < bins.num_points; i += step) {
    keys[i] = bins[i];
  }
}

// A block sees fewer than 2^32 points, else it must not count in shared memory.
template <class Points>
__global__ void __launch_bounds__(kHistogramThreads)
    histogram_count(const __grid_constant__ Points bins, bool shared, unsigned long long* counts) {
  unsigned* const mine = dynamic_shared<unsigned>();
  const int64_t num_bins = bins.in.num_bins;
  if (shared) {
    for (int64_t k = threadIdx.x; k < num_bins; k += blockDim.x) mine[k] = 0;
    __syncthreads();
  }
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < bins.num_points; i += step) {
    const int64_t bin = bins[i];
    if (bin == num_bins) continue;
    if (shared) {
      atomicAdd(&mine[bin], 1u);
    } else {
      atomicAdd(&counts[bin], 1ull);
    }
  }
  if (shared) {
    __syncthreads();
    for (int64_t k = threadIdx.x; k < num_bins; k += blockDim.x) {
      if (mine[k] != 0) atomicAdd(&counts[k], static_cast<unsigned long long>(mine[k]));
    }
  }
}

}  // namespace reprocuda
