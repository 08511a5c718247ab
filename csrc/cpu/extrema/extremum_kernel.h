// The vector kernels of extrema, which exist once per instruction set (extremum.inl).
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../numerics/ordered.h"
#include "../sums/plan.h"

namespace reprocuda::cpu {

// Columns whose best numbers and positions stay in the first cache.
inline constexpr int64_t kExtremumColumns = 256;

// One segment's rows, at least one, some columns of them.
template <class Order, class Position>
struct ExtremumSegment {
  using Key = std::conditional_t<sizeof(typename Order::Key) == 8, int64_t, int32_t>;
  const typename Order::Bits* src;  // the first column of row 0
  int64_t inner;                    // from a row to the next
  int64_t columns;                  // at most kExtremumColumns
  const Position* rows;             // [num_rows], or nullptr: the rows are first_row, first_row + 1, ...
  int64_t first_row;
  int64_t num_rows;
  bool largest;
  Key* best;                        // [columns]
  Position* where;                  // [columns]
};

// Outputs whose best number and position are one integer: the key, as an unsigned number, above the position with all bits
// turned over. Its maximum is that of the numbers, and of equal ones the first. 0: none.
template <class Order>
struct PackedExtrema {
  const uint64_t* packed;              // [count], not in the memory of the results
  const typename Order::Bits* self;    // [count] or nullptr: zeros, which do not compete
  typename Order::Bits* out;           // [count]
  int64_t* arg;                        // [count]
  int64_t count;
  int64_t num_rows;                    // the position where self stands
  bool largest;
};

// The best of the segment's rows, column by column, and the first row that has it.
template <class Order, class Position>
using BestOfRows = void (*)(const ExtremumSegment<Order, Position>& segment);

// Of numbers of at most 32 bits.
template <class Order>
struct PackingKernels {
  void (*pack)(const typename Order::Bits* from, int64_t count, bool largest, int64_t first_row, uint64_t* packed);
  void (*unpack)(const PackedExtrema<Order>& job);
};

// For the instruction set in use.
template <class Order, class Position>
BestOfRows<Order, Position> best_of_rows();
template <class Order>
PackingKernels<Order> packing_kernels();

}  // namespace reprocuda::cpu
