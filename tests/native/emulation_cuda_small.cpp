#include "cuda/small.cu"
