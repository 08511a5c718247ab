// Before and after the sort that groups contributions by target: pairs (target, source) in, a plan out.
//
// Guarantee: an index out of range is printed and traps before anything is grouped; the grouping is stable if the sort is.
// Nothing here touches data. Cost: one read of the index, one write of the pairs; log2(rows) probes of sorted keys a target,
// shared by neighbouring targets.
#pragma once

#include "keys.cuh"
#include "segment_problem.cuh"

namespace reprocuda {

inline constexpr int kGroupingThreads = 256;

// Pairs for rows: rows aimed at the ignored target get the key num_targets, behind all others.
template <class Word>
__global__ void __launch_bounds__(kGroupingThreads)
    grouping_row_pairs(IndexArray index,        // [num_rows]
                     int64_t num_rows, int64_t num_targets, int64_t ignored_target,
                     Word* __restrict__ keys,     // [num_rows]
                     Word* __restrict__ sources)  // [num_rows]
{
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kGroupingThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kGroupingThreads + threadIdx.x; i < num_rows; i += stride) {
    const int64_t target = index[i];
    if (target < 0 || target >= num_targets) report_out_of_range(i, target, num_targets);
    keys[i] = static_cast<Word>(target == ignored_target ? num_targets : target);
    sources[i] = static_cast<Word>(i);
  }
}

// Pairs for elements with an index each: from source offset to output offset.
template <class Word>
__global__ void __launch_bounds__(kGroupingThreads)
    grouping_element_pairs(const __grid_constant__ ElementKeys elements,
                         Word* __restrict__ keys,     // [elements.count]
                         Word* __restrict__ sources)  // [elements.count]
{
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kGroupingThreads;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * kGroupingThreads + threadIdx.x; e < elements.count; e += stride) {
    const Place place = elements.locate(e);
    keys[e] = static_cast<Word>(place.output);
    sources[e] = static_cast<Word>(place.source);
  }
}

// offsets[t] is the number of keys below t. Block b does targets b * kGroupingThreads and on; its first two warps narrow the
// search down for all. Where `permutation` is given, `sources` is widened into it.
template <class Word>
__global__ void __launch_bounds__(kGroupingThreads)
    grouping_offsets(const Word* __restrict__ keys,     // [num_rows] sorted
                   const Word* __restrict__ sources,  // [num_rows]
                   int64_t num_rows, int64_t num_targets,
                   int64_t* __restrict__ offsets,      // [num_targets + 1]
                   int64_t* __restrict__ permutation)  // [num_rows] or nullptr
{
  __shared__ int64_t bounds[2];
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kGroupingThreads;
  if (first <= num_targets) {
    if (thread < 64) {
      const int64_t target = first + (thread < 32 ? 0 : kGroupingThreads);
      const int64_t bound = warp_partition_point(
          0, num_rows, [&](int64_t i) { return static_cast<int64_t>(__ldg(keys + i)) < target; });
      if (thread % 32 == 0) bounds[thread / 32] = bound;
    }
    __syncthreads();
    const int64_t target = first + thread;
    if (target <= num_targets) {
      int64_t low = bounds[0];
      int64_t high = bounds[1];
      while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (static_cast<int64_t>(__ldg(keys + middle)) < target) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      offsets[target] = low;
    }
  }
  if (permutation == nullptr) return;
  const int64_t stride = static_cast<int64_t>(gridDim.x) * kGroupingThreads;
  for (int64_t i = first + thread; i < num_rows; i += stride) permutation[i] = static_cast<int64_t>(sources[i]);
}

}  // namespace reprocuda
