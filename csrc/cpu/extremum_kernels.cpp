// The vector kernel of extrema by rows, for every instruction set.
#include "extremum_kernel.h"

#define REPROCUDA_KERNELS "extremum.inl"
#include "every_isa.inl"
