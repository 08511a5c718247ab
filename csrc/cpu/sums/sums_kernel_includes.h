// What the kernel sources of sums need, included before any target option is set.
#pragma once

#include "../../numerics/pair_sum.h"
#include "../vectors/kernel_includes.h"
#include "binned_sum.h"
#include "cells_kernel.h"
#include "exact.h"
#include "rows_kernel.h"
