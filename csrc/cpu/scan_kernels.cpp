// The filtered prefix sums for every instruction set.
#include "scan_kernel.h"

#define REPROCUDA_KERNELS "scan.inl"
#include "every_isa.inl"
