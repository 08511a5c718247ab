#include "cuda/bags.cu"
