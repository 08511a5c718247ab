#include "cuda/words.cu"
