// Integers wrap around and bools are OR-ed: order-free already, so nothing but speed is at stake.
#pragma once

#include "../../problems/accumulation.h"

namespace reprocuda::cpu {

// Return the position of the first index out of range, or -1; nothing is written then.
int64_t accumulate_integers(const Accumulation& problem);
int64_t accumulate_integers(const ElementAccumulation& problem);

}  // namespace reprocuda::cpu
