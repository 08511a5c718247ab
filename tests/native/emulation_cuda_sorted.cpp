#include "cuda/sorted.cu"
