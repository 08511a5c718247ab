// The vector kernels for every processor, in vectors of 128 bits.
#include "../vectors/kernel_includes.h"

namespace reprocuda::cpu::portable {

inline constexpr int kLanes = 2;

#include "../vectors/lanes.inl"
#include "reducers.inl"
#include "keyed.inl"
#include "cells.inl"
#include "reduced_cells.inl"
#include "rows_kernel.inl"
#include "rows_single.inl"
#include "pairs.inl"
#include "binned.inl"
#include "rows_entry.inl"
#include "../fingerprint/fingerprint.inl"

}  // namespace reprocuda::cpu::portable
