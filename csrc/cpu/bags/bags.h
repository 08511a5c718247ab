// Embedding bags on the CPU. Knows nothing of torch.
//
// Guarantee: bits that no thread, instruction set or order inside a bag changes; of a maximum's row, the first in its bag.
// Cost: one read of every row named; what plain, interval or compensated sums do not prove is summed again as integers.
#pragma once

#include "../../problems/bags.h"

namespace reprocuda::cpu {

// Each allocates its scratch memory first: throws std::bad_alloc, never from inside a parallel region.

// Returns the first position whose row is none of the table's, with `out` in no state that means anything, or -1.
int64_t bag_sum(const BagSum& problem);
void bag_maximum(const BagMaximum& problem);
void row_products(const RowProducts& problem);

}  // namespace reprocuda::cpu
