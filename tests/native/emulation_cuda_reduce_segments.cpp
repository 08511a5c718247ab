#include "cuda/reduce_segments.cu"
#include "cuda/reduce_segments_float.cu"
#include "cuda/reduce_segments_half.cu"
