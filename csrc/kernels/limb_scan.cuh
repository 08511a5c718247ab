// Rounds an exact sum whose 32-bit limbs arrive one after another, lowest first, without storing them.
//
// Guarantee: round() is the exact value of all limbs pushed, divided by `count`, rounded once. Why four digits are enough: a
// limb leaves a balanced digit in [-2^31, 2^31) and carries the rest, so the highest nonzero digit has the sign of the sum
// and everything below digit k is smaller than one unit of digit k. The scan keeps the four digits that end at the highest
// nonzero one, at least 2^95 units of the lowest, and the sign of what lies below them. Over a count below 2^40 that leaves
// the 55 bits which rounding with a sticky bit needs.
#pragma once

#include "../numerics/exact_sum.h"
#include "device.cuh"

namespace reprocuda {

class LimbScan {
 public:
  // Limb `limb` of the sum is low + high * 2^32. Limbs come in ascending order, with none left out while carrying() holds;
  // |low| < 2^62, |high| < 2^61.
  __device__ __forceinline__ void push(int limb, int64_t low, int64_t high = 0) {
    const int64_t total = low + carry_;
    const int64_t digit = static_cast<int32_t>(static_cast<uint32_t>(total));
    carry_ = ((total - digit) >> 32) + high;
    if (digit != 0) append(limb, digit);
  }

  __device__ __forceinline__ bool carrying() const { return carry_ != 0; }

  // `num_limbs` limbs have been pushed or were zero.
  template <class T, class Format>
  __device__ T round(int num_limbs, uint32_t flags, int64_t count) {
    if ((flags & kSawNaN) || (flags & (kSawPosInf | kSawNegInf)) == (kSawPosInf | kSawNegInf)) return canonical_nan<T>();
    if (flags & (kSawPosInf | kSawNegInf)) return infinity<T>((flags & kSawNegInf) != 0);
    for (int limb = num_limbs; carry_ != 0; ++limb) push(limb, 0);
    if (digits_[3] == 0) return zero<T>((flags & kSawNonNegZero) == 0);

    const bool negative = digits_[3] < 0;
    const int64_t sign = negative ? -1 : 1;
    Fixed128 size = {0, 0};
    for (int i = 3; i >= 0; --i) size = size.shifted_left(32).plus(Fixed128::from_integer(sign * digits_[i]));
    const int64_t below = sign * below_;
    if (below < 0) size = size.plus(Fixed128::from_integer(-1));
    uint64_t high = static_cast<uint64_t>(size.high);
    uint64_t low = size.low;
    const bool remainder = count != 1 && divide_wide(static_cast<uint64_t>(count), &high, &low);
    return round_scaled_wide<T>(negative, high, low, Format::kLowestExponent + 32 * (top_ - 3), remainder || below != 0);
  }

 private:
  __device__ __forceinline__ void append(int limb, int64_t digit) {
    for (int gap = limb - top_ < 4 ? limb - top_ : 4; gap > 0; --gap) {
      if (digits_[0] != 0) below_ = digits_[0] < 0 ? -1 : 1;
      digits_[0] = digits_[1];
      digits_[1] = digits_[2];
      digits_[2] = digits_[3];
      digits_[3] = 0;
    }
    digits_[3] = digit;
    top_ = limb;
  }

  int64_t carry_ = 0;
  int64_t digits_[4] = {0, 0, 0, 0};
  int below_ = 0;
  int top_ = -4;
};

}  // namespace reprocuda
