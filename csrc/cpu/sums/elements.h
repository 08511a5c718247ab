// Element-wise problems that need no partition.
#pragma once

#include <vector>

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

// Whether most of many outputs get nothing, and those of one run of elements differ.
bool are_scattered_thinly(const ElementAccumulation& problem, const ElementKeys& keys);

// What additions in place have lost: it belongs to the outputs that are named as often as there are parts of it.
template <class T>
struct LostParts {
  std::vector<int64_t> keys;
  std::vector<T> values;
};

// Adds in place, one run of elements after another: afterwards every exact sum is that of its output and of the parts of `lost`.
// The index must be in range, the rounding to nearest.
template <class T>
LostParts<T> add_with_losses(const ElementAccumulation& problem, const ElementKeys& keys, int max_workers);

}  // namespace reprocuda::cpu
