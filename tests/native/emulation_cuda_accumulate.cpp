#include "cuda/accumulate.cu"
