// Sums of float64 into few targets as integers, where all of their numbers fit one window of bits.
//
// A number that is a multiple of the window's last bit, and small enough, is the sum of two integers of different weight. A
// cell adds up both: exactly, in any order, at half the memory and a fraction of the arithmetic of a compensated sum.
//
// Guarantee: what is served are the exact sums rounded once. What does not fit, anything not finite, or a -0 (which no integer
// tells from +0), is found out on the way: the problem is then declined, and nothing has been written. Cost: about a
// nanosecond a contribution, and 16 bytes a target and worker.
#pragma once

#include <optional>

#include "../../problems/accumulation.h"

namespace reprocuda::cpu {

// Whether a problem has a form that can be served, whatever its numbers.
bool may_sum_in_fixed_bins(const Accumulation& problem);

// The position of the first bad index, or -1: served. Nothing: declined. Throws std::bad_alloc.
template <class Index>
std::optional<int64_t> sum_in_fixed_bins(const Accumulation& problem, const Index* index);

}  // namespace reprocuda::cpu
