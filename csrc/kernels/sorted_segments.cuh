// Sums rows that are grouped by target: out[t] = self[t] + sum of the weighted rows between offsets[t] and offsets[t + 1].
//
// Guarantee: every output that this kernel writes is the exact sum rounded once; targets without contributions keep self bit
// for bit, or are +0; so the bits depend on nothing but the contributions. Targets that are split over units are left as
// partial sums, exact enclosures that segments_merge takes; nothing else is written to `out` for them.
// Why it holds: a Sum vouches for its own rounding whatever the order of additions, and what it cannot vouch for is summed
// in integers. `self` is read by the thread that writes the same element, before it writes.
// Work: a block takes one unit of the path (segment_problem.cuh) and divides it evenly between walkers, groups of lanes that
// cover a tile of at most 128 columns. A walker goes through its items alone, loading some rows ahead of the one it
// adds. Targets that end in one walker and begin in an earlier one are put together by a segmented scan over the block.
// Cost: one read of the data, one write of the results, log2(walkers) barriers; two partials a unit.
#pragma once

#include "exact_column.cuh"

namespace reprocuda {

// Outputs whose sums did not prove their rounding. The block sums them exactly when all walkers have stopped, be it because
// they are through or because the queue is full. Targets are counted from the first one of the unit.
struct ExactQueue {
  static constexpr int kCapacity = 4 * kSegmentThreads;  // whatever one target of every walker can leave
  static constexpr int kNothing = -1;

  int count;  // may exceed the capacity by what did not fit
  int targets[kCapacity];
  uint8_t columns[kCapacity];

  // Room for `wanted` outputs, or -1 if the queue is full.
  __device__ __forceinline__ int reserve(int wanted) {
    const int slot = atomicAdd(&count, wanted);
    if (slot + wanted <= kCapacity) return slot;
    for (int i = slot; i < kCapacity; ++i) targets[i] = kNothing;
    return -1;
  }
};

template <class T>
__attribute__((noinline)) __device__ void write_exactly(const SegmentProblem& problem, int columns_per_lane, int64_t target,
                                                        int in_tile, Team team) {
  const Slice slice(problem, blockIdx.x % problem.num_slices, columns_per_lane);
  const int64_t begin = problem.offsets[target];
  const int64_t end = problem.offsets[target + 1];
  if (begin < 0 || end > problem.num_rows) report_bad_offsets(problem.num_rows);
  const int64_t column = slice.first_column + in_tile;
  const int64_t at = (slice.first_target + target) * problem.inner + column;
  const T* self = problem.self == nullptr ? nullptr : static_cast<const T*>(problem.self) + at;
  const T* src = static_cast<const T*>(problem.src) + slice.first_row * problem.inner;
  const int64_t divisor = problem.mean ? end - begin + problem.own : 1;
  const T result = sum_exactly(Column<T>{problem, src, self, column}, begin, end, divisor, team);
  if (team.rank() == 0) static_cast<T*>(problem.out)[at] = result;
}

// Called by the whole block between barriers: threads share out the short segments, warps the long ones.
template <class T>
__device__ __forceinline__ void write_queued(const SegmentProblem& problem, const ExactQueue& queue, int columns_per_lane,
                                             int64_t first_target) {
  constexpr int64_t kLongSegment = 32;
  const int queued = queue.count < ExactQueue::kCapacity ? queue.count : ExactQueue::kCapacity;
#pragma unroll 1
  for (int by_warp = 0; by_warp < 2; ++by_warp) {
    const int step = by_warp != 0 ? kSegmentThreads / 32 : kSegmentThreads;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x) / (kSegmentThreads / step); i < queued; i += step) {
      if (queue.targets[i] == ExactQueue::kNothing) continue;
      const int64_t target = first_target + queue.targets[i];
      const bool is_long = problem.offsets[target + 1] - problem.offsets[target] >= kLongSegment;
      if (is_long == (by_warp != 0)) {
        write_exactly<T>(problem, columns_per_lane, target, queue.columns[i], Team{by_warp != 0});
      }
    }
  }
}

template <class State, int kColumns>
__device__ __forceinline__ void clear(State (&sums)[kColumns]) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) sums[c] = State::empty();
}

template <class State, class T, int kColumns>
__device__ __forceinline__ void add(State (&sums)[kColumns], const Pack<T, kColumns>& values) {
#pragma unroll
  for (int c = 0; c < kColumns; ++c) sums[c].add(values.values[c]);
}

// One thread's share of a tile: kColumns neighbouring columns.
template <class T, int kColumns, template <class> class State>
struct SegmentLane {
  using Values = Pack<T, kColumns>;

  const SegmentProblem& problem;
  ExactQueue& queue;
  const int64_t& unit_target;  // the first target of the unit
  int64_t first_target;        // of this outer, counted over all
  int64_t column;
  int in_tile;
  bool active;

  __device__ SegmentLane(const SegmentProblem& problem, const Slice& slice, ExactQueue& queue, const int64_t& unit_target)
      : problem(problem), queue(queue), unit_target(unit_target), first_target(slice.first_target) {
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

  // Only for a target that this thread writes: lanes beyond the last column must not read what others write.
  __device__ __forceinline__ bool has_self() const { return problem.self != nullptr && active; }
  __device__ __forceinline__ Values load_self(int64_t target) const {
    return load<T, kColumns>(self() + place_of(target));
  }

  // A target without contributions.
  __device__ __forceinline__ void keep(int64_t target) const {
    if (!active || problem.kept == problem.out) return;
    Values values;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) values.values[c] = positive_zero<T>();
    if (problem.kept != nullptr) values = load<T, kColumns>(static_cast<const T*>(problem.kept) + place_of(target));
    store<T, kColumns>(out() + place_of(target), values);
  }

  // `sums` holds all contributions but self. Writes what they prove and queues the rest. If the queue is full, returns false
  // and has written nothing.
  __device__ __forceinline__ bool finish(int64_t target, State<T> (&sums)[kColumns]) const {
    if (has_self()) add(sums, load_self(target));
    if constexpr (kHasMean<State<T>>) {
      if (problem.mean) {
        const int64_t count = __ldg(problem.offsets + target + 1) - __ldg(problem.offsets + target) + problem.own;
        return write(target, sums, [count](const State<T>& sum, T* result) { return sum.round_mean(count, result); });
      }
    }
    return write(target, sums, [](const State<T>& sum, T* result) { return sum.round(result); });
  }

  template <class Round>
  __device__ __forceinline__ bool write(int64_t target, const State<T> (&sums)[kColumns], Round&& round) const {
    Values results;
    unsigned failed = 0;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) failed |= round(sums[c], &results.values[c]) ? 0u : 1u << c;
    if (kIsFloat<T> && problem.force_exact) failed = (1u << kColumns) - 1;
    if (!active) return true;
    if (failed == 0) {
      store<T, kColumns>(out() + place_of(target), results);
      return true;
    }
    int slot = kIsSum<State<T>> ? queue.reserve(__popc(failed)) : 0;
    if (slot < 0) return false;
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      if (((failed >> c) & 1) == 0) {
        out()[place_of(target) + c] = results.values[c];
      } else if constexpr (!kIsSum<State<T>>) {
        mark_unsettled(problem, place_of(target) + c);
      } else {
        queue.targets[slot] = static_cast<int>(target - unit_target);
        queue.columns[slot] = static_cast<uint8_t>(in_tile + c);
        ++slot;
      }
    }
    return true;
  }
};

// Enough bytes in flight to cover the latency of memory at the occupancy that the launch bounds ask for.
template <class T, int kColumns>
inline constexpr int kRowsAhead = sizeof(T) * kColumns == 8 ? 8 : 4;

// Where a walker is. Rows and targets are counted from where it started, in 32 bits.
struct WalkerState {
  int target = 0;         // the next one to end
  bool has_head = false;  // the first target began in an earlier walker and has ended: `heads` has its rows
  bool is_through = false;
};

// A walker's way through its items, until the last or until the queue is full. In the end `tails` has the rows of the
// target that goes on in the next walker.
template <class T, int kColumns, template <class> class State>
__device__ __forceinline__ void walk(WalkerState& state, const SegmentProblem& problem,
                                     const SegmentLane<T, kColumns, State>& lane,
                                     const T* src,  // the lane's columns in row 0 of this outer
                                     int64_t first_row, int num_rows, int64_t first_target, int num_targets,
                                     State<T> (*heads)[kSegmentThreads], State<T> (*tails)[kSegmentThreads]) {
  constexpr int kAhead = kRowsAhead<T, kColumns>;
  const int64_t* offsets = problem.offsets + first_target;
  const auto row_before = [&](int target) {
    const int64_t row = __ldg(offsets + target) - first_row;
    return static_cast<int>(row < 0 ? -1 : row < INT32_MAX ? row : INT32_MAX);
  };
  State<T> sums[kColumns];
  clear(sums);
  int target = state.target;
  // A target that is late is left to the merging.
  const bool is_late = __ldg(offsets) < first_row;
  int begin = target == 0 ? 0 : row_before(target);
  // An empty walker may stand behind the last target, where no target ends.
  int end = num_rows == 0 && num_targets == 0 ? 0 : row_before(target + 1);

  for (int row = begin;;) {
    if (end < begin) report_bad_offsets(problem.num_rows);
    const bool is_head = target == 0 && is_late;
    const int num_ahead = num_rows - row < kAhead ? num_rows - row : kAhead;
    const int count = end - row < num_ahead ? end - row : num_ahead;
    const bool is_ending = target < num_targets && row + count == end;
    const bool is_kept = is_ending && ((begin == end && !is_head) || first_target + target == problem.ignored_target);
    // Rows of the next target are read too, though not used: they will be near when their turn comes. What is in flight
    // need not survive the end of a target, where registers are short.
    if (count > 0) {
      int64_t rows[kAhead];
      source_rows(problem, first_row + row, num_ahead, rows);
      Pack<T, kColumns> values[kAhead];
      load_rows(problem, src, rows, values);
      if (!kIsSum<State<T>> || problem.weight.is_one) {
        if (count == kAhead) {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) add(sums, values[j]);
        } else {
#pragma unroll
          for (int j = 0; j < kAhead; ++j) {
            if (j < count) add(sums, values[j]);
          }
        }
      } else if constexpr (kIsSum<State<T>>) {
#pragma unroll
        for (int j = 0; j < kAhead; ++j) {
          if (j >= count) continue;
          Weight weight = problem.weight;
          if (problem.weights != nullptr) weight.real = __ldg(problem.weights + first_row + row + j);
          Pack<T, kColumns> partners = values[j];
          if constexpr (kColumns == 1) {
            // Its sector has just been read.
            if (problem.weight.is_complex) {
              partners = load_constant<T, 1>(src + rows[j] * problem.inner + ((lane.column & 1) != 0 ? -1 : 1));
            }
          } else {
#pragma unroll
            for (int c = 0; c < kColumns; ++c) partners.values[c] = values[j].values[c ^ 1];
          }
#pragma unroll
          for (int c = 0; c < kColumns; ++c) {
            add_weighted(sums[c], weight, values[j].values[c], partners.values[c], ((lane.column + c) & 1) != 0);
          }
        }
      }
      row += count;
    }
    if (is_ending) {
      if (is_kept) {
        lane.keep(first_target + target);
      } else if (is_head) {
        state.has_head = true;
#pragma unroll
        for (int c = 0; c < kColumns; ++c) heads[c][threadIdx.x] = sums[c];
      } else if (!lane.finish(first_target + target, sums)) {
        state.target = target;
        return;
      }
      clear(sums);
      ++target;
      begin = end;
      if (target < num_targets || end < num_rows) end = row_before(target + 1);
    } else if (row == num_rows) {
#pragma unroll
      for (int c = 0; c < kColumns; ++c) tails[c][threadIdx.x] = sums[c];
      state.is_through = true;
      return;
    }
  }
}

template <class T, int kColumns, template <class> class State>
__global__ void __launch_bounds__(kSegmentThreads, kSegmentBlocksPerSm)
    segments_reduce(const __grid_constant__ SegmentProblem problem) {
  __shared__ State<T> heads[kColumns][kSegmentThreads];
  __shared__ State<T> tails[kColumns][kSegmentThreads];
  __shared__ int64_t starts[kSegmentThreads + 1];  // the target in which each walker starts, and where the last one stops
  __shared__ ExactQueue queue;

  const int64_t unit = blockIdx.x / problem.num_slices;
  const unsigned slice_index = blockIdx.x % problem.num_slices;
  const SegmentPath path(problem);
  const Slice slice(problem, slice_index, kColumns);
  const SegmentLane<T, kColumns, State> lane(problem, slice, queue, starts[0]);
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

  const int64_t first_target = starts[walker];
  WalkerState state;
  for (;;) {
    if (!state.is_through) {
      const int64_t end_item = path.clamp(begin_item + path.items_per_walker);
      const int num_targets = static_cast<int>(starts[walker + 1] - first_target);
      const int num_rows = static_cast<int>(end_item - begin_item) - num_targets;
      const int64_t row = path.row_at(begin_item, first_target);
      if (num_targets < 0 || num_rows < 0 || path.first_row < 0 || row + num_rows > path.last_row ||
          path.last_row > problem.num_rows) {
        report_bad_offsets(problem.num_rows);
      }
      const T* src = static_cast<const T*>(problem.src) + slice.first_row * problem.inner + lane.column;
      walk(state, problem, lane, src, row, num_rows, first_target, num_targets, heads, tails);
    }
    const bool all_through = __syncthreads_and(state.is_through);
    if constexpr (kHasMean<State<T>>) {
      // Uniform: nobody adds to the queue between the barriers.
      if (queue.count > 0) {
        write_queued<T>(problem, queue, kColumns, starts[0]);
        __syncthreads();
        if (thread == 0) queue.count = 0;
        __syncthreads();
      }
    }
    if (all_through) break;
  }

  State<T> sums[kColumns];
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
    State<T>* partial = partial_of<State<T>>(problem, unit, slice_index, tail, kColumns);
#pragma unroll
    for (int c = 0; c < kColumns; ++c) partial[c * problem.lanes + (thread & (problem.lanes - 1))] = sums[c];
  };
  if (state.has_head) {
#pragma unroll
    for (int c = 0; c < kColumns; ++c) {
      sums[c] = heads[c][thread];
      if (walker > 0) sums[c].merge(tails[c][thread - problem.lanes]);
    }
    if (path.item_of_row(__ldg(path.offsets + first_target), first_target) >= unit_begin) {
      lane.finish(first_target, sums);
    } else {
      if (lane.has_self()) add(sums, lane.load_self(first_target));
      leave_partial(false);
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

  if constexpr (kHasMean<State<T>>) {
    __syncthreads();
    write_queued<T>(problem, queue, kColumns, starts[0]);
  }
}

}  // namespace reprocuda
