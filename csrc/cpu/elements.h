// Element-wise problems that need no partition.
#pragma once

#include "element_keys.h"
#include "stages.h"

namespace reprocuda::cpu {

// Whether every stretch along the indexed dimension is a small problem of its own, contiguous in all arrays.
bool are_independent_rows(const ElementAccumulation& problem, const ElementKeys& keys);

// One set of cells for a row of outputs, one worker a row. The index must be in range.
template <class T>
void sum_independent_rows(const ElementAccumulation& problem, const ElementKeys& keys, FirstStage first_stage, int max_workers);

// One set of cells a worker for all outputs. Returns the position of the first bad index, or -1.
template <class T>
int64_t sum_elements_in_bins(const ElementAccumulation& problem, const ElementKeys& keys, FirstStage first_stage, int max_workers);

}  // namespace reprocuda::cpu
