#include "cuda/extremum.cu"
