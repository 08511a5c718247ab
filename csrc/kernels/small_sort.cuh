// Groups a few thousand rows by target inside one block, in shared memory.
//
// A key is target * 2^12 + row, so keys are distinct and their order is the stable order by target, however they are found.
// Guarantee: after small_sort the keys of the block's share of targets are ascending; after find_units every maximal run of
// one target is cut into units of at most `unit_rows`, at multiples of `unit_rows`. Cost: one read of the index;
// log2(n)^2 / 2 barriers for n keys.
#pragma once

#include "device.cuh"

namespace reprocuda {

inline constexpr int kSmallThreads = 256;
inline constexpr int kSmallRowBits = 12;
inline constexpr int kMostSmallRows = 1 << kSmallRowBits;
inline constexpr int64_t kMostSmallTargets = (int64_t{1} << (32 - kSmallRowBits)) - 1;
inline constexpr uint32_t kNoKey = 0xffffffffu;

__device__ __forceinline__ int64_t target_of_key(uint32_t key) { return key >> kSmallRowBits; }
__device__ __forceinline__ int64_t row_of_key(uint32_t key) { return key & (kMostSmallRows - 1); }

// Sorts the keys of the rows whose target lies in [first_target, end_target) into `keys`; returns their number.
// `target_of_row(row)` is the target, or -1 for a row to skip.
template <class TargetOfRow>
__device__ int small_sort(int num_rows, int64_t first_target, int64_t end_target, uint32_t* keys, TargetOfRow&& target_of_row) {
  __shared__ int found;
  if (threadIdx.x == 0) found = 0;
  __syncthreads();
  for (int row = threadIdx.x; row < num_rows; row += kSmallThreads) {
    const int64_t target = target_of_row(row);
    if (target < first_target || target >= end_target) continue;
    keys[atomicAdd(&found, 1)] = static_cast<uint32_t>(target << kSmallRowBits) | static_cast<uint32_t>(row);
  }
  __syncthreads();
  const int count = found;
  int size = 1;
  while (size < count) size *= 2;
  for (int i = count + threadIdx.x; i < size; i += kSmallThreads) keys[i] = kNoKey;
  __syncthreads();
  // Bitonic: runs of `run` keys are merged by comparing keys `gap` apart.
  for (int run = 2; run <= size; run *= 2) {
    for (int gap = run / 2; gap > 0; gap /= 2) {
      for (int i = threadIdx.x; i < size / 2; i += kSmallThreads) {
        const int low = 2 * i - (i & (gap - 1));
        const uint32_t a = keys[low];
        const uint32_t b = keys[low + gap];
        const bool ascending = (low & run) == 0;
        if ((a > b) == ascending) {
          keys[low] = b;
          keys[low + gap] = a;
        }
      }
      __syncthreads();
    }
  }
  return count;
}

// Writes the positions where units begin, in order; returns their number. Each thread looks at neighbouring positions.
__device__ inline int find_units(const uint32_t* keys, int count, int unit_rows, uint16_t* units) {
  __shared__ int warp_totals[kSmallThreads / 32];
  const int lane = threadIdx.x % 32;
  const int warp = threadIdx.x / 32;
  const int share = (count + kSmallThreads - 1) / kSmallThreads;
  const int begin = static_cast<int>(threadIdx.x) * share;
  const int end = begin + share < count ? begin + share : count;
  const auto starts = [&](int p) { return p % unit_rows == 0 || target_of_key(keys[p]) != target_of_key(keys[p - 1]); };
  int own = 0;
  for (int p = begin; p < end; ++p) own += starts(p) ? 1 : 0;
  int through = own;  // units up to and including this thread's
  for (int distance = 1; distance < 32; distance *= 2) {
    const int before = __shfl_up_sync(0xffffffffu, through, distance);
    if (lane >= distance) through += before;
  }
  if (lane == 31) warp_totals[warp] = through;
  __syncthreads();
  int total = 0;
  int place = through - own;
  for (int w = 0; w < kSmallThreads / 32; ++w) {
    if (w < warp) place += warp_totals[w];
    total += warp_totals[w];
  }
  for (int p = begin; p < end; ++p) {
    if (starts(p)) units[place++] = static_cast<uint16_t>(p);
  }
  __syncthreads();
  return total;
}

// The first position whose key is not below `target`'s first possible key.
__device__ inline int find_target(const uint32_t* keys, int count, int64_t target) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (target_of_key(keys[middle]) < target) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace reprocuda
