// What the drivers of floating-point prefix sums share: of runs (scan_runs.cpp) and of columns (scan.cpp).
#pragma once

#include <cstdint>
#include <type_traits>

#include "../../numerics/running_sum.h"
#include "../../problems/scan.h"
#include "../inexact.h"
#include "../shares.h"
#include "scan_kernel.h"

namespace reprocuda::cpu::scans {

inline constexpr int64_t kGrain = 1 << 14;   // elements that are worth a thread
inline constexpr int64_t kBatch = 1 << 12;   // elements of a task, at least
inline constexpr int kMostFailures = 2;      // quick attempts of a worker that lost a bit until it makes no more

template <class T>
using FormatOf = std::conditional_t<std::is_same_v<T, double>, Fp64Terms, Fp32Terms>;
template <class T>
using Accumulator = ExactAccumulator<FormatOf<T>>;

// Runs a quick kernel and returns whether what it stored is right. `failures` counts the others; at kMostFailures nothing runs.
template <class T, class Kernel>
bool succeeds_quickly(int& failures, Kernel&& kernel) {
  if (failures >= kMostFailures) return false;
  const RoundingScope environment(RoundingMode::kNearest);
  clear_inexact();
  if (kernel() && (std::is_same_v<T, double> || !is_inexact())) return true;
  ++failures;
  return false;
}

// Adds in[0], in[stride], ... to what precedes them and stores the prefixes that `is_flagged` names; what follows the
// last of them is not read.
template <class T, class IsFlagged>
void store_exact(Accumulator<T>& before, const T* in, T* out, int64_t length, int64_t stride, IsFlagged&& is_flagged) {
  while (length > 0 && !is_flagged(length - 1)) --length;
  RunningSum<FormatOf<T>> sum(before.view());
  for (int64_t i = 0; i < length; ++i) {
    sum.add(to_double(in[i * stride]));
    if (is_flagged(i)) out[i * stride] = sum.template round<T>();
  }
}

// Contiguous slices, in which the sums of `inner` columns, at most kMostParts, take turns.
template <class T>
void scan_runs(const Scan& problem);

}  // namespace reprocuda::cpu::scans
