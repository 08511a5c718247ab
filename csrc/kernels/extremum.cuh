// The largest or smallest number aimed at each target, and the smallest position that has it.
//
// What: numbers become integers in their order (numerics/ordered.h). Where they have 32 bits at most, such a key and the
// position, turned over, are one 64-bit cell, and claim raises every output's cell by an integer maximum. Of 64-bit numbers
// integer_atomics_accumulate finds the largest key first, and then positions the smallest position among those that have it.
// finish lets self compete and writes numbers and positions.
// Guarantee: the same bits for any schedule, because maxima of integers have no order. An index out of range is printed and
// traps before a result is written.
// Cost: one read of src and index, one atomic a contribution (none where a cell already holds more), 3 graph nodes; of 64-bit
// numbers two reads, two atomics, 5 nodes. The cells lie in the memory of the results: no temporary memory, but for 4 bytes an
// output of narrow numbers with 2^32 - 1 rows and more.
#pragma once

#include "../problems/extremum.h"
#include "integer_atomics.cuh"

namespace reprocuda {

inline constexpr int kExtremumThreads = 256;

struct ExtremumPlace : Place {
  int64_t row;  // position along the dimension
};

struct ExtremumKeys {
  IndexArray index;
  Divisor rows;
  Divisor inner;
  int64_t outer_stride = 0;
  int64_t row_stride = 1;
  int64_t inner_stride = 0;
  int64_t num_targets = 0;
  int64_t count = 0;        // outer * num_rows * inner
  int64_t num_outputs = 0;  // outer * num_targets * inner

  __device__ ExtremumPlace locate(int64_t e) const {
    const int64_t line = inner.quotient(e);
    const int64_t column = e - line * inner.divisor();
    const int64_t slice = rows.quotient(line);
    const int64_t row = line - slice * rows.divisor();
    const int64_t position = slice * outer_stride + row * row_stride + column * inner_stride;
    const int64_t target = index[position];
    if (target < 0 || target >= num_targets) report_out_of_range(position, target, num_targets);
    return {{e, (slice * num_targets + target) * inner.divisor() + column, -1}, row};
  }
};

inline ExtremumKeys make_keys(const Extremum& problem) {
  ExtremumKeys keys;
  keys.index = {problem.index, problem.index_is_int64};
  keys.rows = Divisor(problem.num_rows);
  keys.inner = Divisor(problem.inner);
  keys.outer_stride = problem.outer_stride;
  keys.row_stride = problem.row_stride;
  keys.inner_stride = problem.inner_stride;
  keys.num_targets = problem.num_targets;
  keys.count = problem.outer * problem.num_rows * problem.inner;
  keys.num_outputs = problem.outer * problem.num_targets * problem.inner;
  return keys;
}

// Key and position in one: the larger number is larger, and of equal ones the smaller position. 0: none.
template <class Order>
struct PackedExtremes {
  using Key = typename Order::Key;
  static constexpr int64_t kMaxRows = (int64_t{1} << 32) - 1;
  const int64_t* cells;

  static __device__ unsigned long long cell(Key key, int64_t row) {
    const uint32_t high = static_cast<uint32_t>(static_cast<int32_t>(key)) ^ 0x80000000u;
    return (static_cast<unsigned long long>(high) << 32) | static_cast<uint32_t>(~row);
  }
  __device__ bool none(int64_t f) const { return cells[f] == 0; }
  __device__ Key key(int64_t f) const {
    return static_cast<Key>(static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(cells[f]) >> 32) ^ 0x80000000u));
  }
  __device__ int64_t row(int64_t f) const { return static_cast<uint32_t>(~cells[f]); }
};

// The largest word of all, and num_rows less the smallest position that has it. 0: none.
template <class Order>
struct SplitExtremes {
  using Key = typename Order::Key;
  using Words = ExtremeWords<Order>;
  const typename Words::Word* words;
  const int64_t* places;
  int64_t num_rows;

  __device__ bool none(int64_t f) const { return places[f] == 0; }
  __device__ Key key(int64_t f) const { return static_cast<Key>(words[f] - Words::kOffset); }
  __device__ int64_t row(int64_t f) const { return num_rows - places[f]; }
};

template <class Order>
__global__ void __launch_bounds__(kExtremumThreads)
    extremum_claim(const __grid_constant__ ExtremumKeys keys, bool largest, const typename Order::Bits* src,
                   unsigned long long* cells) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const ExtremumPlace place = keys.locate(e);
    const unsigned long long mine = PackedExtremes<Order>::cell(Order::key(src[e], largest), place.row);
    if (peek(&cells[place.output]) < mine) atomicMax(&cells[place.output], mine);
  }
}

// `words` hold the largest of all.
template <class Words>
__global__ void __launch_bounds__(kExtremumThreads)
    extremum_positions(const __grid_constant__ ExtremumKeys keys, Words how, const typename Words::Element* src,
                       const typename Words::Word* words, unsigned long long* places) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const ExtremumPlace place = keys.locate(e);
    if (how.word(src[e]) != words[place.output]) continue;
    const unsigned long long mine = static_cast<unsigned long long>(keys.rows.divisor() - place.row);
    if (peek(&places[place.output]) < mine) atomicMax(&places[place.output], mine);
  }
}

// The cells may lie in the memory of `out` and `arg`: each is read before its output is written.
template <class Order, class Cells>
__global__ void __launch_bounds__(kExtremumThreads)
    extremum_finish(Cells cells, bool largest, int64_t num_outputs, int64_t num_rows,
                    const typename Order::Bits* self,  // stands where it is as large, or nullptr
                    typename Order::Bits* out, int64_t* arg) {
  using Bits = typename Order::Bits;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t f = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; f < num_outputs; f += step) {
    const bool none = cells.none(f);
    const typename Order::Key key = cells.key(f);
    const int64_t row = cells.row(f);
    const bool own = none || (self != nullptr && Order::key(self[f], largest) >= key);
    out[f] = !own ? Order::bits(key, largest) : self == nullptr ? Bits{0} : self[f];
    arg[f] = own ? num_rows : row;
  }
}

}  // namespace reprocuda
