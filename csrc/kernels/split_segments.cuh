// Completes the targets that segments_reduce left split over several units.
//
// Guarantee: as there: the exact sum rounded once. Block (unit, slice) acts if its unit starts inside a split target. The
// target's helpers are every kUnitsPerHelper-th such block; each merges all partials of the target, in any order, to the
// same enclosures, and the first one writes what they prove. For columns that need it, each helper then sums its share of
// the rows in integers; with several helpers the limbs go to a pool and the last helper to arrive adds them up and rounds.
// No block waits for another. `self` is part of the partials; its element is read again only by the first helper, for a
// column that is not written before all helpers have delivered.
// Cost: the partials are read once by each helper; the exact work of one target spreads over num_units / 16 blocks.
#pragma once

#include "sorted_segments.cuh"

namespace reprocuda {

inline constexpr int kUnitsPerHelper = 16;

// Limb slots for `num_units` units. Only targets of more than kUnitsPerHelper units have several helpers, so that first
// helpers of different targets, and any two later helpers, are at least that many units apart.
inline int64_t num_limb_slots(int64_t num_units) { return 2 * (num_units / kUnitsPerHelper + 1); }

template <class T>
__device__ __forceinline__ int64_t* limbs_of(const SegmentProblem& problem, int64_t unit, bool is_first, int64_t slice,
                                             int64_t column_in_tile, int columns_per_lane) {
  const int64_t slot = unit / kUnitsPerHelper * 2 + (is_first ? 1 : 0);
  const int64_t tile = static_cast<int64_t>(problem.lanes) * columns_per_lane;
  return problem.limbs + ((slot * problem.num_slices + slice) * tile + column_in_tile) * (kNumLimbs<T> + 1);
}

// Limbs and flags of one column over rows [begin, end), summed by the whole block into `limbs` and `*flags` in shared
// memory, which hold zeros before. Complete after the next barrier.
template <class T>
__attribute__((noinline)) __device__ void block_limbs(const Column<T>& column, int64_t begin, int64_t end,
                                                      unsigned long long* limbs, uint32_t* flags) {
  const int thread = static_cast<int>(threadIdx.x);
  const Team team{true};
  Survey survey = column.survey(begin, end, thread, kSegmentThreads);
  survey.windows = team.any(survey.windows);
  survey.flags = team.any(survey.flags);
  if (thread % 32 == 0) atomicOr(flags, survey.flags);
  for (int first = 0; first < kNumLimbs<T>; first += kWindow) {
    if (((survey.windows >> (first / kWindow)) & 1) == 0) continue;
    int64_t window[kWindow];
    column.sum_window(begin, end, thread, kSegmentThreads, first, window);
#pragma unroll
    for (int k = 0; k < kWindow; ++k) {
      const int64_t sum = team.sum(window[k]);
      // Two's complement: adding the bits adds the signed values.
      if (thread % 32 == k && first + k < kNumLimbs<T>) {
        atomicAdd(&limbs[first + k], static_cast<unsigned long long>(sum));
      }
    }
  }
}

// Called by a whole warp: the limbs of `num_helpers` helpers of one column, added and rounded.
template <class T>
__attribute__((noinline)) __device__ T round_pooled(const SegmentProblem& problem, int64_t first_unit, int64_t num_helpers,
                                                    int64_t slice, int64_t column_in_tile, int columns_per_lane,
                                                    int64_t count) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  LimbScan scan;
  uint32_t flags = 0;
  for (int first = 0; first <= kNumLimbs<T>; first += 32) {
    int64_t low = 0;
    int64_t high = 0;
    for (int64_t h = 0; h < num_helpers && first + lane <= kNumLimbs<T>; ++h) {
      const int64_t limb = __ldcg(limbs_of<T>(problem, first_unit + h * kUnitsPerHelper, h == 0, slice, column_in_tile,
                                              columns_per_lane) + first + lane);
      if (first + lane == kNumLimbs<T>) flags |= static_cast<uint32_t>(limb);
      low += limb & 0xffffffff;
      high += limb >> 32;
    }
#pragma unroll 1
    for (int k = 0; k < 32; ++k) {
      const int64_t limb_low = __shfl_sync(0xffffffffu, low, k);
      const int64_t limb_high = __shfl_sync(0xffffffffu, high, k);
      if (first + k < kNumLimbs<T>) scan.push(first + k, limb_low, limb_high);
    }
  }
  return scan.template round<T, typename ExactTerms<T>::Format>(kNumLimbs<T>, Team{true}.any(flags), count);
}

template <class T, int kColumns, template <class> class State>
__global__ void __launch_bounds__(kSegmentThreads)
    segments_merge(const __grid_constant__ SegmentProblem problem) {
  constexpr int kWords = kColumns;  // of 32 columns: a tile has at most 32 * kColumns
  __shared__ State<T> merged[kColumns][kSegmentThreads];
  __shared__ uint32_t flagged[kWords];

  const int64_t unit = blockIdx.x / problem.num_slices + 1;
  const unsigned slice_index = blockIdx.x % problem.num_slices;
  const SegmentPath path(problem);
  const int64_t unit_begin = unit * path.items_per_unit;
  const int64_t target = __ldg(problem.unit_targets + unit);
  if (unit_begin >= path.num_items || target >= path.num_targets || target == problem.ignored_target) return;
  const int64_t begin = __ldg(path.offsets + target);
  const int64_t length = __ldg(path.offsets + target + 1) - begin;
  if (begin < path.first_row || length < 0 || begin + length > path.last_row) report_bad_offsets(problem.num_rows);
  const int64_t first_item = path.item_of_row(begin, target);
  if (length == 0 || first_item >= unit_begin) return;

  const int64_t first_unit = first_item / path.items_per_unit;
  const int64_t last_unit = (first_item + length) / path.items_per_unit;
  const int64_t num_helpers = (last_unit - first_unit + kUnitsPerHelper - 1) / kUnitsPerHelper;
  const int64_t helper = (unit - first_unit - 1) / kUnitsPerHelper;
  if ((unit - first_unit - 1) % kUnitsPerHelper != 0 || (!kIsSum<State<T>> && helper > 0)) return;

  const Slice slice(problem, slice_index, kColumns);
  const int thread = static_cast<int>(threadIdx.x);
  const int lanes = problem.lanes;
  const int lane = thread & (lanes - 1);
  const int walker = thread / lanes;
  const int num_walkers = kSegmentThreads / lanes;
  if (thread < kWords) flagged[thread] = 0;

  State<T> sums[kColumns];
  clear(sums);
#pragma unroll 2
  for (int64_t u = first_unit + walker; u <= last_unit; u += num_walkers) {
    const State<T>* partial = partial_of<State<T>>(problem, u, slice_index, u < last_unit, kColumns);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sums[c].merge(partial[c * lanes + lane]);
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c) merged[c][thread] = sums[c];
  for (int half = num_walkers / 2; half > 0; half /= 2) {
    __syncthreads();
    if (walker < half) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) merged[c][thread].merge(merged[c][thread + half * lanes]);
    }
  }
  // No barrier: a thread of the first walker reads what it has merged itself; `flagged` was cleared before the loop's first.
  static_assert(kSegmentThreads > 32, "several walkers, so that the loop has barriers");

  const int64_t row_place = (slice.first_target + target) * problem.inner;
  T* out = static_cast<T*>(problem.out) + row_place;
  const int64_t count = problem.mean ? length + problem.own : 1;
  if (walker == 0) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      const int in_tile = lane * kColumns + c;
      const int64_t column = slice.first_column + in_tile;
      if (column >= problem.inner) continue;
      T result;
      bool certified = false;
      if constexpr (kHasMean<State<T>>) {
        certified = problem.mean ? merged[c][thread].round_mean(count, &result) : merged[c][thread].round(&result);
      } else {
        certified = merged[c][thread].round(&result);
      }
      if (kIsFloat<T>) certified = certified && !problem.force_exact;
      if (!certified && !kIsSum<State<T>>) {
        mark_unsettled(problem, row_place + column);
      } else if (!certified) {
        atomicOr(&flagged[in_tile / 32], 1u << (in_tile % 32));
      } else if (helper == 0) {
        out[column] = result;
      }
    }
  }

  if constexpr (kHasMean<State<T>>) {
    __shared__ unsigned long long limbs[kNumLimbs<T>];
    __shared__ uint32_t flags;
    __shared__ bool is_last;
    __syncthreads();
    bool any = false;
#pragma unroll
    for (int w = 0; w < kWords; ++w) any = any || flagged[w] != 0;
    if (!any) return;

    const auto is_flagged = [&](int in_tile) { return ((flagged[in_tile / 32] >> (in_tile % 32)) & 1) != 0; };
    const int tile = lanes * kColumns;
    const int64_t share_begin = begin + length * helper / num_helpers;
    const int64_t share_end = begin + length * (helper + 1) / num_helpers;
    for (int in_tile = 0; in_tile < tile; ++in_tile) {
      if (!is_flagged(in_tile)) continue;
      for (int k = thread; k < kNumLimbs<T>; k += kSegmentThreads) limbs[k] = 0;
      if (thread == 0) flags = 0;
      __syncthreads();
      const int64_t column = slice.first_column + in_tile;
      const T* src = static_cast<const T*>(problem.src) + slice.first_row * problem.inner;
      const T* self = problem.self == nullptr || helper > 0 ? nullptr
                                                            : static_cast<const T*>(problem.self) + row_place + column;
      block_limbs(Column<T>{problem, src, self, column}, share_begin, share_end, limbs, &flags);
      __syncthreads();
      if (num_helpers > 1) {
        int64_t* pool = limbs_of<T>(problem, unit, helper == 0, slice_index, in_tile, kColumns);
        for (int k = thread; k <= kNumLimbs<T>; k += kSegmentThreads) {
          pool[k] = k < kNumLimbs<T> ? static_cast<int64_t>(limbs[k]) : static_cast<int64_t>(flags);
        }
      } else if (thread == 0) {
        LimbScan scan;
#pragma unroll 1
        for (int k = 0; k < kNumLimbs<T>; ++k) scan.push(k, static_cast<int64_t>(limbs[k]));
        out[column] = scan.template round<T, typename ExactTerms<T>::Format>(kNumLimbs<T>, flags, count);
      }
      __syncthreads();
    }
    if (num_helpers == 1) return;

    // The block's limbs were written before the loop's last barrier: the fence of one thread makes them visible before the
    // block counts as arrived.
    if (thread == 0) {
      __threadfence();
      unsigned* arrivals = problem.arrivals + (first_unit + 1) * problem.num_slices + slice_index;
      is_last = atomicAdd(arrivals, 1u) == static_cast<unsigned>(num_helpers) - 1;
      __threadfence();
    }
    __syncthreads();
    if (!is_last) return;
    for (int in_tile = thread / 32; in_tile < tile; in_tile += kSegmentThreads / 32) {
      if (!is_flagged(in_tile)) continue;
      const T result = round_pooled<T>(problem, first_unit + 1, num_helpers, slice_index, in_tile, kColumns, count);
      if (thread % 32 == 0) out[slice.first_column + in_tile] = result;
    }
  }
}

}  // namespace reprocuda
