#include "reduce_segments.h"

namespace reprocuda::cuda {

template void reduce_segments_of<float>(int64_t, const SegmentProblem&, const Context&);
template void reduce_segments_of<double>(int64_t, const SegmentProblem&, const Context&);

}  // namespace reprocuda::cuda
