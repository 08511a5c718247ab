// The vector kernels of sums over bags for every instruction set.
#include "bags_kernel.h"

#define REPROCUDA_KERNELS "cpu/bags/bags.inl"
#include "../vectors/every_isa.inl"
