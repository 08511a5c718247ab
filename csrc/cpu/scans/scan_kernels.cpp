// The filtered prefix sums for every instruction set.
#include "scan_kernel.h"

#define REPROCUDA_KERNELS "cpu/scans/scan.inl"
#include "../vectors/every_isa.inl"
