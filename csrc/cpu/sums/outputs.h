// Targets that nothing is added to: they keep `self` bit for bit, or become zero.
#pragma once

#include "../../problems/accumulation.h"

namespace reprocuda::cpu {

// Fills all of `out` as if no target had a contribution, by all threads.
void fill_untouched(void* out, const void* self, int64_t bytes);
void fill_untouched(const Accumulation& problem);

}  // namespace reprocuda::cpu
