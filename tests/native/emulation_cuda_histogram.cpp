#include "cuda/histogram.cu"
