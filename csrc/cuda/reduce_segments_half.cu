#include "reduce_segments.h"

namespace reprocuda::cuda {

template void reduce_segments_of<Half>(int64_t, const SegmentProblem&, const Context&);
template void reduce_segments_of<BFloat16>(int64_t, const SegmentProblem&, const Context&);

}  // namespace reprocuda::cuda
