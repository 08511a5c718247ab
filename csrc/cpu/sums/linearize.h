// Several index tensors to one row number, on the CPU.
#pragma once

#include "../../problems/linearization.h"

namespace reprocuda::cpu {

// Fills problem.keys. Returns -1, or the first position at which an index is out of bounds; the keys are unspecified then.
int64_t linearize(const IndexLinearization& problem);

}  // namespace reprocuda::cpu
