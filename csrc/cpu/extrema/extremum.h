// Maxima and minima with their positions, on the CPU. Knows nothing of torch.
//
// Guarantee: the smallest position of the extreme number, whatever the number of threads; a comparison knows no rounding.
// Cost: wide rows are grouped by target and read once; else one read of the source for each range of targets that the work is
// cut into, and no memory where numbers have at most 32 bits: the positions' own memory holds both.
#pragma once

#include "../../extremum.h"

namespace reprocuda::cpu {

// The first position of the index, as it lies in memory, that is out of range, or -1. If there is one, the results mean nothing.
int64_t extremum(const Extremum& problem);

}  // namespace reprocuda::cpu
