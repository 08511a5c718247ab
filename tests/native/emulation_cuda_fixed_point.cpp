#include "cuda/fixed_point.cu"
