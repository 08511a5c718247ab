#include "cuda/fixed_point.cu"
#include "cuda/fixed_point_elements.cu"
