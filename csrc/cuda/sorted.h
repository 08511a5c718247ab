// The launcher of the sorted algorithm, below the canonical problems: contributions that are grouped by target already.
#pragma once

#include "../kernels/segment_problem.cuh"
#include "accumulate.h"

namespace reprocuda::cuda {

// SegmentProblem::row_bytes.
inline uint32_t narrow_row_bytes(int64_t num_sources, int64_t inner, Dtype dtype) {
  const bool is_narrow = num_sources <= UINT32_MAX && inner <= UINT32_MAX / 8;
  return is_narrow ? static_cast<uint32_t>(inner * element_size(dtype)) : 0;
}

// Reduces a problem whose fields up to `force_exact` are filled in; `outer` slabs. Chooses the division of work, takes the
// pools for split targets from the context and queues one kernel, or two where there is more than one unit.
void reduce_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context);

// The same for products of floats: a clearing and one kernel more. `problem.unsettled` is filled in here.
void multiply_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context);

// Temporary memory of reduce_segments, at most.
inline constexpr int64_t kMaxPartialBytes = int64_t{16} << 20;

}  // namespace reprocuda::cuda
