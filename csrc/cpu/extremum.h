// Maxima and minima with their positions, on the CPU. Knows nothing of torch.
//
// Guarantee: the smallest position of the extreme number, whatever the number of threads; a comparison knows no rounding.
// Cost: wide rows are grouped by target and read once; else one read of the source for each range of targets that the work is
// cut into, and no memory where numbers have at most 32 bits: the positions' own memory holds both.
#pragma once

#include "../extremum.h"

namespace reprocuda::cpu {

// Every index has been found in range.
void extremum(const Extremum& problem);

}  // namespace reprocuda::cpu
