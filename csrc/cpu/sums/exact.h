// The exact fallback: what the filter does not certify is summed or multiplied again as integers (numerics/exact_sum.h,
// numerics/exact_product.h).
//
// Guarantee: the exact result rounded once, for every input; of a product, as far as 190 000 bits can tell it from a tie.
// Cost: 3 to 6 ns a contribution; only the outputs asked for are summed, row by row, a tile of columns at a time whose limbs
// stay in the first-level cache.
#pragma once

#include <cstdint>

#include "rows_kernel.h"

namespace reprocuda::cpu {

// Bytes that exact_segment needs behind `limbs`.
inline constexpr int64_t kExactBytes = 24 << 10;

// Finishes out[target, first_column + columns[c]] for c in [0, count) from positions [first, last) of the grouping.
template <class T, class Position>
void exact_segment(
    const RowsJob<T, Position>& job,
    int64_t first,
    int64_t last,
    int64_t target,
    int32_t* columns,  // [count], of the tile; overwritten
    int64_t count,
    int64_t* limbs);   // kExactBytes

// The same by all threads; for segments with many rows. Allocates.
template <class T, class Position>
void exact_segment_parallel(
    const RowsJob<T, Position>& job,
    int64_t first,
    int64_t last,
    int64_t target,
    const int32_t* columns,  // [count], of the tile
    int64_t count);

}  // namespace reprocuda::cpu
