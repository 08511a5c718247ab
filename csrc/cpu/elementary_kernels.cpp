// exp, log and sqrt for every instruction set.
#include "elementary_kernel.h"

#define REPROCUDA_KERNELS "elementary.inl"
#include "every_isa.inl"
