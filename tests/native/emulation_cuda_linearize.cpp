#include "cuda/linearize.cu"
