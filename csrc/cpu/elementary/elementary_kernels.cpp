// exp, log and sqrt for every instruction set.
#include "elementary_kernel.h"

#define REPROCUDA_KERNELS "cpu/elementary/elementary.inl"
#include "../vectors/every_isa.inl"
