// The vector kernels of sums: the lanes, then what is made of them. Included once for every instruction set.
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
