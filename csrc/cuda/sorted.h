// The launcher of the sorted algorithm, below the canonical problems: contributions that are grouped by target already.
#pragma once

#include "../kernels/segment_problem.cuh"
#include "accumulate.h"

namespace reprocuda::cuda {

// Reduces a problem whose fields up to `force_exact` are filled in; `outer` slabs. Chooses the division of work, takes the
// pools for split targets from the context and queues one kernel, or two where there is more than one unit.
void reduce_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context);

// The same for products of floats: a clearing and one kernel more. `problem.unsettled` is filled in here.
void multiply_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context);

// Temporary memory of reduce_segments, at most.
inline constexpr int64_t kMaxPartialBytes = int64_t{16} << 20;

}  // namespace reprocuda::cuda
