// The vector kernel of extrema by rows, which exists once per instruction set (extremum.inl).
#pragma once

#include <cstdint>
#include <type_traits>

#include "../numerics/ordered.h"
#include "isa.h"
#include "plan.h"

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

namespace portable {
template <class Order, class Position>
void best_of_rows(const ExtremumSegment<Order, Position>& segment);
}
namespace avx2 {
template <class Order, class Position>
void best_of_rows(const ExtremumSegment<Order, Position>& segment);
}
namespace avx512 {
template <class Order, class Position>
void best_of_rows(const ExtremumSegment<Order, Position>& segment);
}

// By the instruction set in use.
template <class Order, class Position>
inline void best_of_rows(const ExtremumSegment<Order, Position>& segment) {
  switch (selected_isa()) {
#if defined(__x86_64__)
    case Isa::kAvx512: return avx512::best_of_rows(segment);
    case Isa::kAvx2: return avx2::best_of_rows(segment);
#endif
    default: return portable::best_of_rows(segment);
  }
}

}  // namespace reprocuda::cpu
