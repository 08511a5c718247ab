// The vector kernels of sums over bags for every instruction set.
#include "bags_kernel.h"

#define REPROCUDA_KERNELS "bags.inl"
#include "every_isa.inl"
