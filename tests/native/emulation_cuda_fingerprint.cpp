#include "cuda/fingerprint.cu"
