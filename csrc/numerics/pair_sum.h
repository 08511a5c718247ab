// The stage between the filter and the superaccumulators, for 16- and 32-bit floats: an exact sum as a pair of doubles.
//
// sum and error each collect terms by an exact two-sum. While no addition to error loses a bit, the exact sum is sum +
// error: then it is rounded once, and proven by that alone. Guarantee: when round returns true, *result is the exact sum
// rounded once; an infinity or a NaN among the contributions is never proven. No sum of 2^63 such terms or products
// overflows. Needs round-to-nearest, FTZ and DAZ off, and no contraction. `sum` is -0 if and only if every contribution is.
#pragma once

#include "double_double.h"

namespace reprocuda {

// head.sum + head.error, a two-sum, in 53 bits of which the last is set where bits behind were cut off: enough to round
// it once more, to a format that is at least two bits shorter.
REPROCUDA_HD double round_to_odd(TwoSum head) {
  const uint64_t bits = bits_of(head.sum);
  const uint64_t outward = 1 - 2 * ((bits ^ bits_of(head.error)) >> 63);
  const uint64_t moves = ~bits & static_cast<uint64_t>(!is_zero(head.error));  // no branch: no guess would be right
  return from_bits<double>(bits + ((0 - (moves & 1)) & outward));
}

struct PairSum {
  double sum = -0.0;
  double error = 0.0;
  uint64_t lost = 0;  // not zero: a bit has been lost

  void add(double x) {
    const TwoSum head = two_sum(sum, x);
    sum = head.sum;
    add_error(head.error);
  }

  void merge(const PairSum& other) {
    add(other.sum);
    add_error(other.error);
    lost |= other.lost;
  }

  template <class T>
  bool round(T* result) const {
    if (lost != 0) return false;
    const TwoSum head = two_sum(sum, error);
    *result = is_zero(head.sum) ? zero<T>(bits_of(sum) == kSignBit) : round_to<T>(round_to_odd(head));
    return true;
  }

 private:
  void add_error(double x) {
    const TwoSum tail = two_sum(error, x);
    error = tail.sum;
    lost |= magnitude_bits(tail.error);
  }
};

}  // namespace reprocuda
