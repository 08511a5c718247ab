#include "cuda/elementary.cu"
