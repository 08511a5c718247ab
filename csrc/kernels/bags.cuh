// Maxima of the rows that bags name, with the row each comes from, and sums of products of row by row. Sums over bags are
// those of sorted segments.
//
// Guarantee: maxima are a function of the values and of the order within a bag: of equal ones the first in the bag stands.
// Products are exact sums rounded once: an interval or a compensated sum proves its rounding, or a warp sums in integers. An
// index out of range is printed and traps before it is used.
// Work: a block takes one bag and a tile of columns, its walkers share out the bag's rows; a warp takes one product.
// Cost: one read of every row named; log2(walkers) barriers a bag.
#pragma once

#include "../problems/bags.h"
#include "../numerics/ordered.h"
#include "exact_column.cuh"

namespace reprocuda {

inline constexpr int kBagThreads = 256;

template <class Order>
__global__ void __launch_bounds__(kBagThreads) bags_maximum(const __grid_constant__ BagMaximum problem, int lanes) {
  using Bits = typename Order::Bits;
  using Key = typename Order::Key;
  constexpr int64_t kNowhere = INT64_MAX;
  __shared__ Key keys[kBagThreads];
  __shared__ int64_t positions[kBagThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int walkers = kBagThreads / lanes;
  const int walker = thread / lanes;
  const int64_t tiles = (problem.features + lanes - 1) / lanes;
  const Bits* table = static_cast<const Bits*>(problem.table);
  for (int64_t task = blockIdx.x; task < problem.num_bags * tiles; task += gridDim.x) {
    const int64_t bag = task / tiles;
    const int64_t column = task % tiles * lanes + thread % lanes;
    const bool active = column < problem.features;
    const int64_t first = __ldg(problem.offsets + bag);
    const int64_t last = __ldg(problem.offsets + bag + 1);
    if (first < 0 || last > problem.num_rows || last < first) report_bad_offsets(problem.num_rows);
    Key best = std::numeric_limits<Key>::min();  // below every number's
    int64_t where = kNowhere;
    for (int64_t position = first + walker; position < last; position += walkers) {
      const int64_t row = __ldg(problem.rows + position);
      if (static_cast<uint64_t>(row) >= static_cast<uint64_t>(problem.num_table_rows)) {
        report_bad_row(position, row, problem.num_table_rows);
      }
      if (!active) continue;
      const Key key = Order::key(__ldg(table + row * problem.features + column), true);
      if (where == kNowhere || key > best) {
        best = key;
        where = position;
      }
    }
    keys[thread] = best;
    positions[thread] = where;
    __syncthreads();
    for (int step = walkers / 2; step > 0; step /= 2) {
      if (walker < step) {
        const int other = thread + step * lanes;
        const bool wins = positions[other] != kNowhere &&
                          (positions[thread] == kNowhere || keys[other] > keys[thread] ||
                           (keys[other] == keys[thread] && positions[other] < positions[thread]));
        if (wins) {
          keys[thread] = keys[other];
          positions[thread] = positions[other];
        }
      }
      __syncthreads();
    }
    if (walker == 0 && active) {
      const int64_t at = bag * problem.features + column;
      const bool is_empty = first == last;
      static_cast<Bits*>(problem.out)[at] = is_empty ? Bits{0} : Order::bits(keys[thread], true);
      problem.argmax[at] = is_empty ? 0 : __ldg(problem.rows + positions[thread]);
    }
    __syncthreads();  // before the next bag's are written
  }
}

// The products of one pair of rows, for sum_exactly.
template <class T>
struct RowPair {
  using Element = T;

  const T* left;
  const T* right;

  template <class Add>
  __device__ __forceinline__ void visit(int64_t begin, int64_t end, int rank, int size, Add&& add) const {
#pragma unroll 1
    for (int64_t i = begin + rank; i < end; i += size) add(to_double(left[i]), to_double(right[i]));
  }
  __device__ Survey survey(int64_t begin, int64_t end, int rank, int size) const {
    return survey_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); });
  }
  __device__ void sum_window(int64_t begin, int64_t end, int rank, int size, int first, int64_t (&limbs)[kWindow]) const {
    sum_window_of_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); }, first, limbs);
  }
};

template <class T>
__global__ void __launch_bounds__(kBagThreads)
    bags_row_products(const __grid_constant__ RowProducts problem, bool force_exact) {
  __shared__ Sum<T> sums[kBagThreads];
  constexpr int kWarps = kBagThreads / 32;
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % 32;
  T* out = static_cast<T*>(problem.out);
  for (int64_t p = int64_t{blockIdx.x} * kWarps + thread / 32; p < problem.num_products; p += int64_t{gridDim.x} * kWarps) {
    const int64_t left_row = __ldg(problem.left_rows + p);
    const int64_t right_row = __ldg(problem.right_rows + p);
    if ((problem.ignored >= 0 && right_row == problem.ignored) || problem.features == 0) {
      if (lane == 0) out[p] = positive_zero<T>();
      continue;
    }
    if (static_cast<uint64_t>(left_row) >= static_cast<uint64_t>(problem.num_left)) {
      report_bad_row(p, left_row, problem.num_left);
    }
    if (static_cast<uint64_t>(right_row) >= static_cast<uint64_t>(problem.num_right)) {
      report_bad_row(p, right_row, problem.num_right);
    }
    const RowPair<T> pair{static_cast<const T*>(problem.left) + left_row * problem.features,
                          static_cast<const T*>(problem.right) + right_row * problem.features};
    Sum<T> sum = Sum<T>::empty();
    for (int64_t f = lane; f < problem.features; f += 32) sum.add_product(to_double(pair.left[f]), pair.right[f]);
    sums[thread] = sum;
    __syncwarp();
    for (int step = 16; step > 0; step /= 2) {
      if (lane < step) sums[thread].merge(sums[thread + step]);
      __syncwarp();
    }
    T result;
    const bool is_proven = sums[thread - lane].round(&result) && !force_exact;
    __syncwarp();  // before the next product's are written
    if (!is_proven) result = sum_exactly(pair, 0, problem.features, 1, Team{true});
    if (lane == 0) out[p] = result;
  }
}

}  // namespace reprocuda
