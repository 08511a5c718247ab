// Sums rows that are grouped by target: out[t] = self[t] + sum of the weighted rows between offsets[t] and offsets[t + 1].
//
// Guarantee: every output that this kernel writes is the exact sum rounded once; targets without contributions keep self bit
// for bit, or are +0; so the bits depend on nothing but the contributions. Targets that are split over units are left as
// partial sums, exact enclosures that reduce_split_segments_kernel merges; nothing else is written to `out` for them.
// Why it holds: a Sum vouches for its own rounding whatever the order of additions, and what it cannot vouch for is summed
// in integers. `self` is read by the thread that writes the same element, before it writes.
// Work: a block takes one unit of the path (segment_problem.cuh) and divides it evenly between walkers, groups of lanes that
// cover a tile of at most 128 columns. A walker goes through its items alone, loading some rows ahead of the one it
// adds. Targets that end in one walker and begin in an earlier one are put together by a segmented scan over the block.
// Cost: one read of the data, one write of the results, log2(walkers) barriers; two partials a unit.
#pragma once

#include "exact_column.cuh"

namespace reprocuda {

// Outputs that the walkers leave for whole warps to sum exactly: long segments, of which one lane would take too long.
struct ExactQueue {
  static constexpr int kCapacity = 96;
  static constexpr int64_t kLongSegment = 64;

  int count;
  int columns[kCapacity];
  int64_t targets[kCapacity];

  __device__ bool push(int64_t target, int in_tile) {
    // Once full it stays full, and its count moves by less than one a thread.
    if (count >= kCapacity) return false;
    const int slot = atomicAdd(&count, 1);
    if (slot >= kCapacity) return false;
    targets[slot] = target;
    columns[slot] = in_tile;
    return true;
  }
};

template <class Team, class T>
__device__ void write_exactly(const SegmentProblem& problem, const Slice<T>& slice, int64_t target, int64_t column) {
  const int64_t begin = problem.offsets[target];
  const int64_t end = problem.offsets[target + 1];
  const int64_t at = target * problem.inner + column;
  const Column<T> source{problem, slice.src, slice.self == nullptr ? nullptr : slice.self + at, column};
  const T result = sum_exactly<Team>(source, begin, end, problem.mean ? end - begin : 1);
  if (Team::rank() == 0) slice.out[at] = result;
}

// Out of line and with few arguments, all by value, so that the loop that may call it keeps its registers.
template <class T>
__attribute__((noinline)) __device__ void write_exactly_later(const SegmentProblem& problem, ExactQueue& queue, int64_t slice_index,
                                                 int columns_per_lane, int64_t target, int in_tile) {
  const int64_t length = problem.offsets[target + 1] - problem.offsets[target];
  if (length >= ExactQueue::kLongSegment && queue.push(target, in_tile)) return;
  const Slice<T> slice(problem, slice_index, columns_per_lane);
  write_exactly<LaneTeam>(problem, slice, target, slice.first_column + in_tile);
}

// One thread's share of a walker: kColumns neighbouring columns.
template <class T, int kColumns>
struct SegmentLane {
  using Values = Pack<T, kColumns>;

  const SegmentProblem& problem;
  const Slice<T>& slice;
  ExactQueue& queue;
  int64_t column;
  bool active;

  __device__ SegmentLane(const SegmentProblem& problem, const Slice<T>& slice, ExactQueue& queue)
      : problem(problem), slice(slice), queue(queue) {
    const int lane = static_cast<int>(threadIdx.x) & (problem.lanes - 1);
    column = slice.first_column + static_cast<int64_t>(lane) * kColumns;
    active = column < problem.inner;
    // Lanes beyond the last column follow along on the first and write nothing.
    if (!active) column = 0;
  }

  __device__ __forceinline__ void clear(Sum<T> (&sums)[kColumns]) const {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sums[c] = Sum<T>::empty();
  }

  __device__ __forceinline__ void add_self(Sum<T> (&sums)[kColumns], int64_t target) const {
    if (slice.self == nullptr) return;
    const Values own = load<T, kColumns>(slice.self + target * problem.inner + column);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) sums[c].add(own.values[c]);
  }

  // A target without contributions.
  __device__ __forceinline__ void keep(int64_t target) const {
    if (!active || slice.self == slice.out) return;
    const int64_t at = target * problem.inner + column;
    Values values;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values.values[c] = positive_zero<T>();
    if (slice.self != nullptr) values = load<T, kColumns>(slice.self + at);
    store<T, kColumns>(slice.out + at, values);
  }

  // `sums` holds all contributions but self.
  __device__ __forceinline__ void finish(int64_t target, int64_t length, Sum<T> (&sums)[kColumns]) const {
    if (!active) return;
    add_self(sums, target);
    const int64_t at = target * problem.inner + column;
    Values results;
    unsigned failed = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) failed |= round(sums[c], length, &results.values[c]) ? 0u : 1u << c;
    if (failed == 0) {
      store<T, kColumns>(slice.out + at, results);
      return;
    }
    if constexpr (kIsFloat<T>) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (((failed >> c) & 1) == 0) slice.out[at + c] = results.values[c];
      }
      for (; failed != 0; failed &= failed - 1) {
        const int in_tile = static_cast<int>(column - slice.first_column) + __ffs(static_cast<int>(failed)) - 1;
        write_exactly_later<T>(problem, queue, blockIdx.x % problem.num_slices, kColumns, target, in_tile);
      }
    }
  }

  __device__ __forceinline__ bool round(const Sum<T>& sum, int64_t length, T* result) const {
    if constexpr (kIsFloat<T>) {
      const bool certified = problem.mean ? sum.round_mean(length, result) : sum.round(result);
      return certified && !problem.force_exact;
    } else {
      return sum.round(result);
    }
  }
};

// Enough bytes in flight to cover the latency of memory at the occupancy that the launch bounds ask for.
template <class T, int kColumns>
inline constexpr int kRowsAhead = sizeof(T) * kColumns <= 8 ? 8 : 4;

template <class T, int kColumns>
__global__ void __launch_bounds__(kSegmentThreads, 4)
    reduce_segments_kernel(const __grid_constant__ SegmentProblem problem) {
  constexpr int kAhead = kRowsAhead<T, kColumns>;
  __shared__ Sum<T> heads[kColumns][kSegmentThreads];
  __shared__ Sum<T> tails[kColumns][kSegmentThreads];
  __shared__ int64_t starts[kSegmentThreads + 1];  // the target in which each walker starts, and where the last one stops
  __shared__ ExactQueue queue;

  const int64_t unit = static_cast<int64_t>(blockIdx.x) / problem.num_slices;
  const int64_t slice_index = static_cast<int64_t>(blockIdx.x) - unit * problem.num_slices;
  const Slice<T> slice(problem, slice_index, kColumns);
  const SegmentPath path(problem);
  const SegmentLane<T, kColumns> lane(problem, slice, queue);
  const int thread = static_cast<int>(threadIdx.x);
  const int walker = thread / problem.lanes;
  const int num_walkers = kSegmentThreads / problem.lanes;
  const int64_t unit_begin = path.clamp(unit * path.items_per_unit);
  const int64_t unit_end = path.clamp(unit_begin + path.items_per_unit);

  if (thread == 0) queue.count = 0;
  if (thread < 64) {
    const int64_t item = thread < 32 ? unit_begin : unit_end;
    const int64_t target = warp_partition_point(0, path.num_targets, [&](int64_t t) { return path.ends_before(t, item); });
    if (thread % 32 == 0) starts[thread < 32 ? 0 : num_walkers] = target;
  }
  __syncthreads();
  const int64_t begin_item = path.clamp(unit_begin + walker * path.items_per_walker);
  const int64_t end_item = path.clamp(begin_item + path.items_per_walker);
  if (walker > 0 && (thread & (problem.lanes - 1)) == 0) {
    starts[walker] = path.targets_before(begin_item, starts[0], starts[num_walkers]);
  }
  __syncthreads();

  const int64_t first_target = starts[walker];
  const int64_t last_target = starts[walker + 1];
  const int64_t first_row = path.row_at(begin_item, first_target);
  const int64_t last_row = path.row_at(end_item, last_target);

  int64_t target = first_target;
  int64_t begin = __ldg(path.offsets + target);
  int64_t end = target < path.num_targets ? __ldg(path.offsets + target + 1) : begin;
  bool has_head = false;
  Sum<T> sums[kColumns];
  lane.clear(sums);

  // The current target ends here: all its rows of this walker are in `sums`.
  const auto end_target = [&] {
    if (begin == end || target == problem.ignored_target) {
      lane.keep(target);
    } else if (begin < first_row) {
      has_head = true;
#pragma unroll
      for (int c = 0; c < kColumns; ++c) heads[c][thread] = sums[c];
    } else {
      lane.finish(target, end - begin, sums);
    }
    lane.clear(sums);
    ++target;
    begin = end;
    end = target < path.num_targets ? __ldg(path.offsets + target + 1) : begin;
  };

  for (int64_t row = first_row;; row += kAhead) {
    const int num_ahead = static_cast<int>(last_row - row < kAhead ? last_row - row : kAhead);
    Pack<T, kColumns> values[kAhead];
    T partners[kAhead];
    if (num_ahead > 0) {
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int64_t position = row + (j < num_ahead ? j : num_ahead - 1);
        const int64_t at = source_row(problem, position) * problem.inner + lane.column;
        values[j] = load_constant<T, kColumns>(slice.src + at);
        if constexpr (kColumns == 1) {
          partners[j] = problem.weight.is_complex ? load_constant<T, 1>(slice.src + (at ^ 1)).values[0] : values[j].values[0];
        }
      }
    }
    const bool is_last = row + num_ahead >= last_row;
    for (int added = 0;;) {
      const int stop = static_cast<int>(end - row < num_ahead ? end - row : num_ahead);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        if (j < added || j >= stop) continue;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) {
          const bool is_imaginary = ((lane.column + c) & 1) != 0;
          const T partner = kColumns == 1 ? partners[j] : values[j].values[kColumns == 1 ? 0 : c ^ 1];
          contribute(sums[c], problem.weight, values[j].values[c], partner, is_imaginary);
        }
      }
      added = stop;
      // The rows ahead are used up, and no target ends without a row.
      if (added == num_ahead && (!is_last || target == last_target)) break;
      end_target();
    }
    if (is_last) break;
  }

  // What is left belongs to last_target, which goes on in the next walker.
#pragma unroll
  for (int c = 0; c < kColumns; ++c) tails[c][thread] = sums[c];
  __syncthreads();

  // Inclusive scan over the walkers that end in the same target: tails[w] becomes all rows of it in this block up to w.
  for (int step = 1; step < num_walkers; step *= 2) {
    const bool joins = walker >= step && starts[walker - step + 1] == starts[walker + 1];
    Sum<T> left[kColumns];
#pragma unroll
    for (int c = 0; c < kColumns; ++c) left[c] = joins ? tails[c][thread - step * problem.lanes] : Sum<T>::empty();
    __syncthreads();
    if (joins) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) tails[c][thread].merge(left[c]);
    }
    __syncthreads();
  }

  if (has_head) {
    const int64_t head_begin = __ldg(path.offsets + first_target);
    const int64_t length = __ldg(path.offsets + first_target + 1) - head_begin;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = heads[c][thread];
      if (walker > 0) sums[c].merge(tails[c][thread - problem.lanes]);
    }
    if (path.item_of_row(head_begin, first_target) >= unit_begin) {
      lane.finish(first_target, length, sums);
    } else {
      lane.add_self(sums, first_target);
      Sum<T>* partial = partial_of<T>(problem, unit, slice_index, false, kColumns);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) partial[c * problem.lanes + (thread & (problem.lanes - 1))] = sums[c];
    }
  }

  if (problem.num_units > 1) {
    if (walker == num_walkers - 1) {
      Sum<T>* partial = partial_of<T>(problem, unit, slice_index, true, kColumns);
#pragma unroll
      for (int c = 0; c < kColumns; ++c) partial[c * problem.lanes + (thread & (problem.lanes - 1))] = tails[c][thread];
    }
    if (thread == 0) {
      problem.arrivals[unit * problem.num_slices + slice_index] = 0;
      if (slice_index == 0) problem.unit_targets[unit] = starts[0];
    }
  }

  if constexpr (kIsFloat<T>) {
    __syncthreads();
    const int queued = queue.count < ExactQueue::kCapacity ? queue.count : ExactQueue::kCapacity;
    for (int i = thread / 32; i < queued; i += kSegmentThreads / 32) {
      write_exactly<WarpTeam>(problem, slice, queue.targets[i], slice.first_column + queue.columns[i]);
    }
  }
}

}  // namespace reprocuda
