#include "cuda/overwrite.cu"
