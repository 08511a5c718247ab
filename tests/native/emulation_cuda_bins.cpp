#include "cuda/bins.cu"
