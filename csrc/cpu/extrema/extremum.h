// Maxima and minima with their positions, on the CPU. Knows nothing of torch.
//
// Guarantee: the smallest position of the extreme number, whatever the number of threads; a comparison knows no rounding.
// Cost: wide rows are grouped by target and read once. One column of numbers of at most 32 bits with more targets than a cache
// has cells for is moved to ranges of targets first (extremum_partition.h). Else one read of the source for each range of
// targets that the work is cut into, without memory where numbers have at most 32 bits: the positions' own holds both.
#pragma once

#include "../../problems/extremum.h"

namespace reprocuda::cpu {

// The first position of the index, as it lies in memory, that is out of range, or -1. If there is one, the results mean
// nothing.
int64_t extremum(const Extremum& problem);

}  // namespace reprocuda::cpu
