// Running products and log-sum-exps for every instruction set.
#include "../elementary.h"
#include "running_kernel.h"

#define REPROCUDA_KERNELS "running.inl"
#include "every_isa.inl"
