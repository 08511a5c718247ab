#include "cuda/scan.cu"
