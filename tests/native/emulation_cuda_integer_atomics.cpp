#include "cuda/integer_atomics.cu"
