#include "cuda/reduce_segments.cu"
