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
    if (*static_cast<volatile int*>(&count) >= kCapacity) return false;
    const int slot = atomicAdd(&count, 1);
    if (slot >= kCapacity) return false;
    targets[slot] = target;
    columns[slot] = in_tile;
    return true;
  }
};

template <class T>
__attribute__((noinline)) __device__ void write_exactly(const SegmentProblem& problem, int columns_per_lane, int64_t target,
                                                        int in_tile, Team team) {
  const Slice slice(problem, blockIdx.x % problem.num_slices, columns_per_lane);
  const int64_t begin = problem.offsets[target];
  const int64_t end = problem.offsets[target + 1];
  const int64_t column = slice.first_column + in_tile;
  const int64_t at = (slice.first_target + target) * problem.inner + column;
  const T* self = problem.self == nullptr ? nullptr : static_cast<const T*>(problem.self) + at;
  const T* src = static_cast<const T*>(problem.src) + slice.first_row * problem.inner;
  const T result = sum_exactly(Column<T>{problem, src, self, column}, begin, end, problem.mean ? end - begin : 1, team);
  if (team.rank() == 0) static_cast<T*>(problem.out)[at] = result;
}

// Leaves the sum of a long segment to the queue, and does any other at once.
template <class T>
__device__ __forceinline__ void write_exactly_later(const SegmentProblem& problem, ExactQueue& queue, int columns_per_lane,
                                                    int64_t target, int in_tile) {
  const int64_t length = problem.offsets[target + 1] - problem.offsets[target];
  if (length >= ExactQueue::kLongSegment && queue.push(target, in_tile)) return;
  write_exactly<T>(problem, columns_per_lane, target, in_tile, Team{false});
}

template <class T, int kColumns>
__device__ __forceinline__ void clear(Sum<T> (&sums)[kColumns]) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) sums[c] = Sum<T>::empty();
}

template <class T, int kColumns>
__device__ __forceinline__ void add(Sum<T> (&sums)[kColumns], const Pack<T, kColumns>& values) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) sums[c].add(values.values[c]);
}

// One thread's share of a tile: kColumns neighbouring columns.
template <class T, int kColumns>
struct SegmentLane {
  using Values = Pack<T, kColumns>;

  const SegmentProblem& problem;
  ExactQueue& queue;
  int64_t first_target;  // of this outer, counted over all
  int64_t column;
  int in_tile;
  bool active;

  __device__ SegmentLane(const SegmentProblem& problem, const Slice& slice, ExactQueue& queue)
      : problem(problem), queue(queue), first_target(slice.first_target) {
    in_tile = (static_cast<int>(threadIdx.x) & (problem.lanes - 1)) * kColumns;
    column = slice.first_column + in_tile;
    active = column < problem.inner;
    // Lanes beyond the last column follow along on the first and write nothing.
    if (!active) column = 0;
  }

  __device__ __forceinline__ int64_t place_of(int64_t target) const {
    return (first_target + target) * problem.inner + column;
  }
  __device__ __forceinline__ T* out() const { return static_cast<T*>(problem.out); }
  __device__ __forceinline__ const T* self() const { return static_cast<const T*>(problem.self); }

  __device__ __forceinline__ void add_self(Sum<T> (&sums)[kColumns], int64_t target) const {
    // Lanes beyond the last column would read what another thread writes when `out` is `self`.
    if (problem.self == nullptr || !active) return;
    add(sums, load<T, kColumns>(self() + place_of(target)));
  }

  // A target without contributions.
  __device__ __forceinline__ void keep(int64_t target) const {
    if (!active || problem.self == problem.out) return;
    Values values;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values.values[c] = positive_zero<T>();
    if (problem.self != nullptr) values = load<T, kColumns>(self() + place_of(target));
    store<T, kColumns>(out() + place_of(target), values);
  }

  // `sums` holds all contributions, self too. Writes what they prove; returns which columns are left for finish_exactly.
  template <class Round>
  __device__ __forceinline__ unsigned write(int64_t target, const Sum<T> (&sums)[kColumns], Round&& round) const {
    Values results;
    unsigned failed = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) failed |= round(sums[c], &results.values[c]) ? 0u : 1u << c;
    if (!active) return 0;
    if (kIsFloat<T> && problem.force_exact) failed = (1u << kColumns) - 1;
    if (failed == 0) {
      store<T, kColumns>(out() + place_of(target), results);
    } else {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) {
        if (((failed >> c) & 1) == 0) out()[place_of(target) + c] = results.values[c];
      }
    }
    return failed;
  }

  __device__ __forceinline__ unsigned write_sum(int64_t target, const Sum<T> (&sums)[kColumns]) const {
    return write(target, sums, [](const Sum<T>& sum, T* result) { return sum.round(result); });
  }

  __device__ __forceinline__ unsigned write_mean(int64_t target, const Sum<T> (&sums)[kColumns]) const {
    if constexpr (kIsFloat<T>) {
      const int64_t count = __ldg(problem.offsets + target + 1) - __ldg(problem.offsets + target);
      return write(target, sums, [count](const Sum<T>& sum, T* result) { return sum.round_mean(count, result); });
    } else {
      return 0;
    }
  }

  __device__ __forceinline__ void finish_exactly(int64_t target, unsigned failed) const {
    if constexpr (kIsFloat<T>) {
      for (; failed != 0; failed &= failed - 1) {
        write_exactly_later<T>(problem, queue, kColumns, target, in_tile + __ffs(static_cast<int>(failed)) - 1);
      }
    }
  }
};

// Enough bytes in flight to cover the latency of memory at the occupancy that the launch bounds ask for.
template <class T, int kColumns>
inline constexpr int kRowsAhead = sizeof(T) * kColumns <= 8 ? 8 : 4;

// A walker's way through its items. Rows and targets are counted from where it starts, in 32 bits. Returns whether the first
// target began in an earlier walker and ended here: then `heads` has its rows; `sums` keeps those of the last, unended one.
template <class T, int kColumns>
__device__ __forceinline__ bool walk(const SegmentProblem& problem, const SegmentLane<T, kColumns>& lane,
                                     const T* src,  // of this outer and the lane's first column
                                     int64_t first_row, int num_rows, int64_t first_target, int num_targets,
                                     Sum<T> (&sums)[kColumns], Sum<T> (*heads)[kSegmentThreads]) {
  constexpr int kAhead = kRowsAhead<T, kColumns>;
  const int64_t* offsets = problem.offsets + first_target;
  const auto row_before = [&](int target) {
    const int64_t row = __ldg(offsets + target) - first_row;
    return static_cast<int>(row < INT32_MAX ? row : INT32_MAX);
  };
  // An empty walker may stand behind the last target, where no target ends.
  const bool is_late = __ldg(offsets) < first_row;
  int target = 0;
  int begin = 0;
  int end = num_rows == 0 && num_targets == 0 ? 0 : row_before(1);
  bool has_head = false;
  const auto next_target = [&] {
    clear(sums);
    ++target;
    begin = end;
    if (target < num_targets || end < num_rows) end = row_before(target + 1);
  };

  for (int row = 0;;) {
    const int num_ahead = num_rows - row < kAhead ? num_rows - row : kAhead;
    Pack<T, kColumns> values[kAhead];
    if (num_ahead > 0) {
      int64_t rows[kAhead];
      source_rows(problem, first_row + row, num_ahead, rows);
#pragma unroll
      for (int j = 0; j < kAhead; ++j) values[j] = load_constant<T, kColumns>(src + row_offset(problem, rows[j]));
    }
    const bool is_last = row + num_ahead == num_rows;
    int added = 0;
    bool interrupted = false;
    unsigned failed = 0;
    for (;;) {
      const int stop = end - row < num_ahead ? end - row : num_ahead;
      if (problem.weight.is_one) {
        if (stop - added == kAhead) {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) add(sums, values[j]);
        } else {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) {
            if (j >= added && j < stop) add(sums, values[j]);
          }
        }
      } else {
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (j < added || j >= stop) continue;
          Pack<T, kColumns> partners = values[j];
          if constexpr (kColumns == 1) {
            // Its sector has just been read.
            if (problem.weight.is_complex) {
              const T* row_src = src + row_offset(problem, source_row(problem, first_row + row + j));
              partners = load_constant<T, 1>((lane.column & 1) != 0 ? row_src - 1 : row_src + 1);
            }
          } else {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) partners.values[c] = values[j].values[c ^ 1];
          }
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            add_weighted(sums[c], problem.weight, values[j].values[c], partners.values[c], ((lane.column + c) & 1) != 0);
          }
        }
      }
      added = stop;
      // The rows ahead are used up, and no target ends without a row.
      if (added == num_ahead && (!is_last || target == num_targets)) break;
      // The current target ends here: all its rows of this walker are in `sums`.
      const bool is_head = target == 0 && is_late;
      if ((begin == end && !is_head) || first_target + target == problem.ignored_target) {
        lane.keep(first_target + target);
      } else if (is_head) {
        has_head = true;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) heads[c][threadIdx.x] = sums[c];
      } else {
        lane.add_self(sums, first_target + target);
        interrupted = problem.mean;
        if (!problem.mean) failed = lane.write_sum(first_target + target, sums);
        interrupted = interrupted || failed != 0;
        if (interrupted) break;
      }
      next_target();
    }
    row += added;
    if (interrupted) {
      // Here and not above, so that nothing read ahead has to survive the calls; it is read again.
      if (problem.mean) failed = lane.write_mean(first_target + target, sums);
      lane.finish_exactly(first_target + target, failed);
      next_target();
    } else if (is_last) {
      return has_head;
    }
  }
}

template <class T, int kColumns>
__global__ void __launch_bounds__(kSegmentThreads, kSegmentBlocksPerSm)
    reduce_segments_kernel(const __grid_constant__ SegmentProblem problem) {
  __shared__ Sum<T> heads[kColumns][kSegmentThreads];
  __shared__ Sum<T> tails[kColumns][kSegmentThreads];
  __shared__ int64_t starts[kSegmentThreads + 1];  // the target in which each walker starts, and where the last one stops
  __shared__ ExactQueue queue;

  const int64_t unit = blockIdx.x / problem.num_slices;
  const unsigned slice_index = blockIdx.x % problem.num_slices;
  const SegmentPath path(problem);
  const Slice slice(problem, slice_index, kColumns);
  const SegmentLane<T, kColumns> lane(problem, slice, queue);
  const int thread = static_cast<int>(threadIdx.x);
  const int walker = thread / problem.lanes;
  const int num_walkers = kSegmentThreads / problem.lanes;
  const int64_t unit_begin = path.clamp(unit * path.items_per_unit);

  if (thread == 0) queue.count = 0;
  if (thread < 64) {
    const int64_t item = thread < 32 ? unit_begin : path.clamp(unit_begin + path.items_per_unit);
    const int64_t target = warp_partition_point(0, path.num_targets, [&](int64_t t) { return path.ends_before(t, item); });
    if (thread % 32 == 0) starts[thread < 32 ? 0 : num_walkers] = target;
  }
  __syncthreads();
  const int64_t begin_item = path.clamp(unit_begin + walker * path.items_per_walker);
  if (walker > 0 && (thread & (problem.lanes - 1)) == 0) {
    starts[walker] = path.targets_before(begin_item, starts[0], starts[num_walkers]);
  }
  __syncthreads();

  Sum<T> sums[kColumns];
  clear(sums);
  const int64_t first_target = starts[walker];
  bool has_head = false;
  {
    const int64_t end_item = path.clamp(begin_item + path.items_per_walker);
    const int num_targets = static_cast<int>(starts[walker + 1] - first_target);
    const int num_rows = static_cast<int>(end_item - begin_item) - num_targets;
    const T* src = static_cast<const T*>(problem.src) + slice.first_row * problem.inner + lane.column;
    has_head = walk(problem, lane, src, path.row_at(begin_item, first_target), num_rows, first_target, num_targets, sums, heads);
  }
  // What is left belongs to the target that goes on in the next walker.
#pragma unroll
  for (int c = 0; c < kColumns; ++c) tails[c][thread] = sums[c];
  __syncthreads();

  // Inclusive scan over the walkers that end in the same target: tails[w] becomes all rows of it in this block up to w.
  for (int step = 1; step < num_walkers; step *= 2) {
    const bool joins = walker >= step && starts[walker - step + 1] == starts[walker + 1];
    clear(sums);
    if (joins) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[c] = tails[c][thread - step * problem.lanes];
    }
    __syncthreads();
    if (joins) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) tails[c][thread].merge(sums[c]);
    }
    __syncthreads();
  }

  const auto leave_partial = [&](bool tail) {
    Sum<T>* partial = partial_of<T>(problem, unit, slice_index, tail, kColumns);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) partial[c * problem.lanes + (thread & (problem.lanes - 1))] = sums[c];
  };
  if (has_head) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = heads[c][thread];
      if (walker > 0) sums[c].merge(tails[c][thread - problem.lanes]);
    }
    lane.add_self(sums, first_target);
    if (path.item_of_row(__ldg(path.offsets + first_target), first_target) < unit_begin) {
      leave_partial(false);
    } else {
      lane.finish_exactly(first_target, problem.mean ? lane.write_mean(first_target, sums) : lane.write_sum(first_target, sums));
    }
  }
  if (problem.num_units > 1) {
    if (walker == num_walkers - 1) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) sums[c] = tails[c][thread];
      leave_partial(true);
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
      write_exactly<T>(problem, kColumns, queue.targets[i], queue.columns[i], Team{true});
    }
  }
}

}  // namespace reprocuda
