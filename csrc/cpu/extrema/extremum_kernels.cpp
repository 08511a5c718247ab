// The vector kernel of extrema by rows, for every instruction set.
#include "extremum_kernel.h"

#define REPROCUDA_KERNELS "cpu/extrema/extremum.inl"
#include "../vectors/every_isa.inl"
