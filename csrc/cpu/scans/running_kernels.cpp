// Running products and log-sum-exps for every instruction set.
#include "../../elementary.h"
#include "running_kernel.h"

#define REPROCUDA_KERNELS "cpu/scans/running.inl"
#include "../vectors/every_isa.inl"
