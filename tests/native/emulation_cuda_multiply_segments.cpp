#include "cuda/multiply_segments.cu"
