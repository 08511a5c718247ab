// Small inputs in one kernel: each block sorts the few rows of its targets in shared memory and reduces some columns.
//
// What: block (tile, share) takes a tile of at most 32 columns and a share of the targets. It sorts the keys of its rows, cuts
// each target's rows into units, sums a unit by one group of lanes, a column a lane, merges the units of long
// segments through shared memory, and writes. In the functional form it also copies the targets that no row names.
// Guarantee: the exact sum rounded once, whatever the schedule: a Sum proves its own rounding, and what it cannot prove is
// summed in integers on the spot, by a lane where the segment is short and by a warp where it is long. Every block
// checks the whole index before it writes.
// Cost: one launch, no device memory; one read of src, and of the index for every block.
#pragma once

#include "exact_column.cuh"
#include "fixed_point_integers.cuh"
#include "keys.cuh"
#include "small_sort.cuh"

namespace reprocuda {

inline constexpr int kSmallUnroll = 4;
inline constexpr int kLongSmallSegment = 64;  // rows from which a warp sums exactly together

// Rows of an Accumulation: a column is one of outer * inner.
struct SmallRows {
  RowKeys keys;

  int64_t num_targets() const { return keys.num_targets; }
  int64_t num_columns() const { return keys.num_outputs / keys.num_targets; }

  __device__ int64_t target(int64_t row) const {
    const int64_t target = keys.checked_target(row);
    return target == keys.ignored_target ? -1 : target;
  }
  __device__ int64_t source(int64_t row, int64_t column) const { return place(keys.rows.divisor(), row, column); }
  __device__ int64_t output(int64_t target, int64_t column) const { return place(keys.num_targets, target, column); }

 private:
  __device__ int64_t place(int64_t slab_size, int64_t row, int64_t column) const {
    const int64_t slab = keys.inner.quotient(column);
    return (slab * (slab_size - 1) + row) * keys.inner.divisor() + column;
  }
};

// Elements: every scalar is a row of its own, every output a target.
struct SmallElements {
  ElementKeys keys;

  int64_t num_targets() const { return keys.num_outputs; }
  int64_t num_columns() const { return 1; }

  __device__ int64_t target(int64_t row) const { return keys.locate(row).output; }
  __device__ int64_t source(int64_t row, int64_t) const { return keys.source(row); }
  __device__ int64_t output(int64_t target, int64_t) const { return target; }
};

template <class T, class Rows>
struct SmallProblem {
  Rows rows;
  const T* src;
  const T* self;             // one more contribution: nullptr, or of the size of out; may be `out`
  const T* kept;             // likewise: what outputs without contributions keep
  T* out;
  Weight weight;
  bool mean;
  bool is_signed;            // integers, for their mean
  bool force_exact;
  int num_rows;
  int64_t num_targets;
  int64_t num_columns;
  int lanes;                 // columns of a tile: a power of 2, at most 32
  int unit_rows;
  unsigned tiles;
  unsigned shares;
  int key_capacity;          // a power of 2, at least num_rows and 16
};

// Dynamic shared memory: keys [key_capacity], units [key_capacity], partial sums [2 * chunks, lanes].
template <class T>
int64_t small_shared_bytes(int num_rows, int key_capacity, int unit_rows, int lanes) {
  const int64_t chunks = (num_rows + unit_rows - 1) / unit_rows;
  const int64_t sums = 2 * chunks * lanes;
  return sums * static_cast<int64_t>(sizeof(Sum<T>)) + key_capacity * int64_t{sizeof(uint32_t) + sizeof(uint16_t)};
}

// The contributions to one output, for the exact fallback.
template <class T, class Rows>
struct SmallColumn {
  using Element = T;
  const SmallProblem<T, Rows>& problem;
  const uint32_t* keys;
  const T* self;
  int64_t column;

  template <class Add>
  __device__ void visit(int64_t begin, int64_t end, int rank, int size, Add&& add) const {
    if (self != nullptr && rank == 0) add(1.0, to_double(*self));
    for (int64_t p = begin + rank; p < end; p += size) {
      const int64_t row = row_of_key(keys[p]);
      add(problem.weight.real, to_double(problem.src[problem.rows.source(row, column)]));
      if (!problem.weight.is_complex) continue;
      add((column & 1) != 0 ? problem.weight.imag : -problem.weight.imag,
          to_double(problem.src[problem.rows.source(row, column ^ 1)]));
    }
  }
  __device__ Survey survey(int64_t begin, int64_t end, int rank, int size) const {
    return survey_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); });
  }
  __device__ void sum_window(int64_t begin, int64_t end, int rank, int size, int first, int64_t (&limbs)[kWindow]) const {
    sum_window_of_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); }, first, limbs);
  }
};

// One block's work after sorting.
template <class T, class Rows>
struct SmallBlock {
  const SmallProblem<T, Rows>& problem;
  const uint32_t* keys;   // [count] ascending
  const uint16_t* units;  // [num_units]
  Sum<T>* partials;       // [2 * chunks, lanes]
  int count;
  int num_units;
  int64_t column;
  bool has_column;
  int lane;               // of its group
  int group;
  int groups;

  // Lanes beyond the last column follow along and write nothing.
  __device__ SmallBlock(const SmallProblem<T, Rows>& problem, const uint32_t* keys, const uint16_t* units, Sum<T>* partials,
                        int count, int num_units)
      : problem(problem), keys(keys), units(units), partials(partials), count(count), num_units(num_units) {
    lane = static_cast<int>(threadIdx.x) % problem.lanes;
    group = static_cast<int>(threadIdx.x) / problem.lanes;
    groups = kSmallThreads / problem.lanes;
    column = static_cast<int64_t>(blockIdx.x % problem.tiles) * problem.lanes + lane;
    has_column = column < problem.num_columns;
  }

  __device__ int unit_end(int unit) const { return unit + 1 < num_units ? units[unit + 1] : count; }
  __device__ bool begins_segment(int p) const { return p == 0 || target_of_key(keys[p]) != target_of_key(keys[p - 1]); }
  __device__ bool ends_segment(int p) const { return p == count || target_of_key(keys[p]) != target_of_key(keys[p - 1]); }

  // A unit that is only a part of its segment starts a chunk, or is the last one in it.
  __device__ Sum<T>& partial(int begin) const {
    const int chunk = begin / problem.unit_rows;
    return partials[(2 * chunk + (begin % problem.unit_rows != 0 ? 1 : 0)) * problem.lanes + lane];
  }

  __device__ Sum<T> sum_rows(int begin, int end) const {
    Sum<T> sum = Sum<T>::empty();
    for (int first = begin; first < end; first += kSmallUnroll) {
      T values[kSmallUnroll];
      T partners[kSmallUnroll];
      for (int k = 0; k < kSmallUnroll; ++k) {
        const int64_t row = row_of_key(keys[first + k < end ? first + k : begin]);
        values[k] = problem.src[problem.rows.source(row, column)];
        partners[k] = problem.weight.is_complex ? problem.src[problem.rows.source(row, column ^ 1)] : values[k];
      }
      for (int k = 0; k < kSmallUnroll; ++k) {
        if (first + k >= end) continue;
        if (problem.weight.is_one) {
          sum.add(values[k]);
        } else {
          add_weighted(sum, problem.weight, values[k], partners[k], (column & 1) != 0);
        }
      }
    }
    return sum;
  }

  // Called by whole warps; `active` lanes hold the sum of all rows [begin, end) of a target in their column.
  __device__ void finish(bool active, int begin, int end, Sum<T> sum) const {
    T result = positive_zero<T>();
    bool settled = true;
    int64_t at = 0;
    if (active) {
      at = problem.rows.output(target_of_key(keys[begin]), column);
      if (problem.self != nullptr) sum.add(problem.self[at]);
      settled = round(sum, end - begin, &result);
      if (settled) problem.out[at] = result;
    }
    if constexpr (kIsFloat<T>) finish_exactly(!settled, begin, end, at);
  }

  // self, as a contribution to the number of a mean's.
  __device__ int own() const { return problem.self != nullptr ? 1 : 0; }

  __device__ bool round(const Sum<T>& sum, int rows, T* result) const {
    if constexpr (kIsFloat<T>) {
      const bool proven = problem.mean ? sum.round_mean(rows + own(), result) : sum.round(result);
      return proven && !problem.force_exact;
    } else {
      sum.round(result);
      if constexpr (!std::is_same_v<T, Boolean>) {
        if (problem.mean) *result = divide_down(*result, rows + own(), problem.is_signed);
      }
      return true;
    }
  }

  __device__ void finish_exactly(bool wanted, int begin, int end, int64_t at) const {
    const bool together = wanted && end - begin >= kLongSmallSegment;
    const T* self = problem.self == nullptr ? nullptr : problem.self + at;
    if (wanted && !together) {
      const SmallColumn<T, Rows> terms{problem, keys, self, column};
      problem.out[at] = sum_exactly(terms, begin, end, problem.mean ? end - begin + own() : 1, Team{false});
    }
    for (unsigned rest = __ballot_sync(0xffffffffu, together); rest != 0; rest &= rest - 1) {
      const int source = __ffs(static_cast<int>(rest)) - 1;
      const int64_t begin_there = __shfl_sync(0xffffffffu, begin, source);
      const int64_t end_there = __shfl_sync(0xffffffffu, end, source);
      const int64_t at_there = __shfl_sync(0xffffffffu, static_cast<long long>(at), source);
      const int64_t column_there = __shfl_sync(0xffffffffu, static_cast<long long>(column), source);
      const T* const self_there = problem.self == nullptr ? nullptr : problem.self + at_there;
      const SmallColumn<T, Rows> terms{problem, keys, self_there, column_there};
      const int64_t divisor = problem.mean ? end_there - begin_there + own() : 1;
      const T result = sum_exactly(terms, begin_there, end_there, divisor, Team{true});
      if (together && at == at_there) problem.out[at] = result;
    }
  }

  // The trip counts of the following loops are the same for all groups of a warp.
  __device__ void reduce_units() const {
    for (int first = 0; first < num_units; first += groups) {
      const int unit = first + group;
      const bool active = unit < num_units && has_column;
      const int begin = active ? units[unit] : 0;
      const int end = active ? unit_end(unit) : 0;
      Sum<T> sum = sum_rows(begin, end);
      const bool whole = active && begins_segment(begin) && ends_segment(end);
      if (active && !whole) partial(begin) = sum;
      finish(whole, begin, end, sum);
    }
  }

  __device__ void merge_units() const {
    for (int first = 0; first < num_units; first += groups) {
      int unit = first + group;
      const bool in_range = unit < num_units && has_column;
      const int begin = in_range ? units[unit] : 0;
      int end = in_range ? unit_end(unit) : 0;
      const bool active = in_range && begins_segment(begin) && !ends_segment(end);
      Sum<T> sum = Sum<T>::empty();
      if (active) {
        sum = partial(begin);
        while (!ends_segment(end)) {
          ++unit;
          sum.merge(partial(units[unit]));
          end = unit_end(unit);
        }
      }
      finish(active, begin, end, sum);
    }
  }

  // Targets that no row names keep self, or are +0.
  __device__ void keep_others(int64_t first_target, int64_t end_target) const {
    if (problem.kept == problem.out || !has_column) return;
    for (int64_t target = first_target + group; target < end_target; target += groups) {
      const int p = find_target(keys, count, target);
      if (p < count && target_of_key(keys[p]) == target) continue;
      const int64_t at = problem.rows.output(target, column);
      problem.out[at] = problem.kept != nullptr ? problem.kept[at] : positive_zero<T>();
    }
  }
};

template <class T, class Rows>
__global__ void __launch_bounds__(kSmallThreads, 2)
    small_accumulate(const __grid_constant__ SmallProblem<T, Rows> problem) {
  uint32_t* keys = dynamic_shared<uint32_t>();
  uint16_t* units = reinterpret_cast<uint16_t*>(keys + problem.key_capacity);
  Sum<T>* partials = reinterpret_cast<Sum<T>*>(units + problem.key_capacity);
  const int64_t share = blockIdx.x / problem.tiles;
  const int64_t per_share = (problem.num_targets + problem.shares - 1) / problem.shares;
  const int64_t first_target = share * per_share;
  const int64_t end_target = first_target + per_share < problem.num_targets ? first_target + per_share : problem.num_targets;
  const int count = small_sort(problem.num_rows, first_target, end_target, keys,
                               [&](int64_t row) { return problem.rows.target(row); });
  const int num_units = find_units(keys, count, problem.unit_rows, units);
  const SmallBlock<T, Rows> block(problem, keys, units, partials, count, num_units);
  block.reduce_units();
  __syncthreads();
  block.merge_units();
  block.keep_others(first_target, end_target);
}

}  // namespace reprocuda
