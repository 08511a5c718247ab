#include "reduce_segments.h"

#include "dispatch.h"

namespace reprocuda::cuda {

void reduce_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context) {
  dispatch(dtype, [&]<class T>() { reduce_segments_of<T>(outer, problem, context); });
}

}  // namespace reprocuda::cuda
