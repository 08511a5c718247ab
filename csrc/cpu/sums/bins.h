// Private bins: every worker adds rows to cells of its own for all targets, in the order in which they come.
#pragma once

#include "../../problems/accumulation.h"
#include "stages.h"

namespace reprocuda::cpu {

// Whether the cells of all targets fit in cache beside each other.
bool bins_fit(const Accumulation& problem);

// Whether that beats a sort: one column, and enough rows for the cells. From two columns on, sums that stay in registers win.
bool bins_pay(const Accumulation& problem);

// Returns the position of the first bad index, or -1. Throws std::bad_alloc.
template <class T, class Index>
int64_t sum_in_bins(const Accumulation& problem, const Index* index, FirstStage first_stage, int max_workers);

}  // namespace reprocuda::cpu
