// Sorted segments: the sums of grouped rows, work split evenly over all rows.
#pragma once

#include "rows_kernel.h"

namespace reprocuda::cpu {

// All slices of the outer dimension. `problem` gives everything but the grouping. Allocates; throws std::bad_alloc.
template <class T, class Position>
void sum_grouped_rows(const Accumulation& problem, const Grouping<Position>& grouping, FirstStage first_stage);

}  // namespace reprocuda::cpu
