// The interval filter for fp16, bf16 and fp32 data: two directed fp64 sums that enclose the exact sum.
//
// Guarantee: when certify returns true, *result is the exact sum rounded once. Rounding is monotone, so if both ends round
// to the same bits, everything between them does; ties need no test of their own, because a sum that fp64 holds exactly
// has lo == hi. Any order, split and merge of the contributions encloses; only how often certify succeeds may differ.
//
// What certify assumes of its arguments, whatever loop produced them (Interval, or MXCSR set to round up with hi and -lo):
//   lo <= exact sum <= hi when all contributions are finite;
//   hi is a zero of sign - if and only if every contribution is -0: so accumulate hi from -0.0, rounding up. (A zero of lo
//   may have either sign, so -lo may start from +0.0 or from -0.0.)
//   a NaN or infinite contribution reaches both ends by ordinary addition, and no finite sum overflows: true of up to 2^700
//   terms or products of fp32 size. Then non-finite ends are the answer itself.
// certify and certify_mean are mode-independent on the host; Interval::add and merge need round-to-nearest there (see
// directed.h).
#pragma once

#include "directed.h"

namespace reprocuda {

// Why zeros need care: an end that is zero stands for an exact zero, whose result is +0 unless every contribution is -0, and
// then both ends are zero and hi has the sign. So an exact cancellation, lo = -0 and hi = +0, is certified; with lo = 0 < hi
// every candidate rounds to +0 as soon as hi does; with lo < 0 = hi both -0 and +0 are possible, and nothing is certified.
template <class T>
REPROCUDA_HD bool certify(double lo, double hi, T* result) {
  *result = round_to<T>(hi);
  if (bits_of(lo) == bits_of(hi)) return true;
  const T low = is_zero(lo) ? zero<T>(false) : round_to<T>(lo);
  const T high = is_zero(hi) ? zero<T>(false) : *result;
  return bits_of(low) == bits_of(high);
}

// The exact sum over the exact count, 1 <= count <= 2^53. A quotient that is a tie of T is exact in fp64, so that both
// directed quotients meet in it whenever the sums did.
template <class T>
REPROCUDA_HD bool certify_mean(double lo, double hi, int64_t count, T* result) {
  const double divisor = static_cast<double>(count);
  return certify<T>(directed_divide<Rounding::kDown>(lo, divisor), directed_divide<Rounding::kUp>(hi, divisor), result);
}

struct Interval {
  double lo;
  double hi;

  static REPROCUDA_HD Interval empty() { return {-0.0, -0.0}; }

  REPROCUDA_HD void add(double x) {
    lo = directed_add<Rounding::kDown>(lo, x);
    hi = directed_add<Rounding::kUp>(hi, x);
  }

  REPROCUDA_HD void merge(Interval other) {
    lo = directed_add<Rounding::kDown>(lo, other.lo);
    hi = directed_add<Rounding::kUp>(hi, other.hi);
  }
};

}  // namespace reprocuda
