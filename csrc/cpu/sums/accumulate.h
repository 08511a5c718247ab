// Accumulation by index on the CPU, on raw pointers: chooses the algorithm of a problem.
//
// Guarantee: every floating-point output is the exact sum of its contributions rounded once, whatever the algorithm, the
// number of threads and the instruction set; integers wrap around and bools are OR-ed.
#pragma once

#include <cstdint>

#include "../../problems/accumulation.h"
#include "stages.h"

namespace reprocuda::cpu {

// Solve the problem. Returns -1, or the position (row, or logical element) of the first index out of range; then nothing
// has been written. Throws std::runtime_error when a forced algorithm cannot serve the problem, std::bad_alloc when
// temporary memory is refused; never from inside a parallel region.
int64_t accumulate(const Accumulation& problem);
int64_t accumulate(const ElementAccumulation& problem);

// Sums and means of real floating-point rows that a plan names, each times its factor: position p contributes
// weights[p] * src[permutation[p]], exactly. A product of 16- and 32-bit floats needs weights that fp32 holds.
void accumulate_weighted(
    const Accumulation& problem,
    const double* weights);   // [num_rows], in the order of the plan's positions

// Hooks for tests, process-wide. A forced algorithm is used or refused, never replaced; every output enters at
// the stage that was set.
void set_forced_algorithm(Algorithm algorithm);
void set_first_stage(FirstStage stage);
FirstStage forced_first_stage();

}  // namespace reprocuda::cpu
