#include "cuda/running.cu"
