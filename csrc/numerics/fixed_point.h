// 128-bit two's-complement fixed point: the value of a Fixed128 v beside an exponent e is v * 2^e.
//
// Integer arithmetic only, two 64-bit words, the same on host and device and under every floating-point mode.
#pragma once

#include "rounding.h"

namespace reprocuda {

struct Fixed128 {
  int64_t high;
  uint64_t low;

  static REPROCUDA_HD Fixed128 from_integer(int64_t value) { return {value >> 63, static_cast<uint64_t>(value)}; }

  REPROCUDA_HD bool is_zero() const { return high == 0 && low == 0; }
  REPROCUDA_HD bool is_negative() const { return high < 0; }

  // Wraps modulo 2^128.
  REPROCUDA_HD Fixed128 plus(Fixed128 other) const {
    const uint64_t sum = low + other.low;
    const uint64_t carry = sum < low ? 1 : 0;
    return {static_cast<int64_t>(static_cast<uint64_t>(high) + static_cast<uint64_t>(other.high) + carry), sum};
  }

  REPROCUDA_HD Fixed128 negated() const {
    const uint64_t flipped = ~static_cast<uint64_t>(high);
    return {static_cast<int64_t>(low == 0 ? flipped + 1 : flipped), ~low + 1};
  }

  // 0 <= count < 128; bits that leave at the top are lost.
  REPROCUDA_HD Fixed128 shifted_left(int count) const {
    if (count == 0) return *this;
    if (count >= 64) return {static_cast<int64_t>(low << (count - 64)), 0};
    return {static_cast<int64_t>((static_cast<uint64_t>(high) << count) | (low >> (64 - count))), low << count};
  }

  // Adds the finite x to the value at `exponent`, exactly. Returns false, and changes nothing, if x is not a multiple of
  // 2^exponent or is not below 2^(exponent + 126); a value that stays below 2^126 units cannot wrap by one such addition.
  REPROCUDA_HD bool add_exactly(double x, int exponent) {
    Decoded parts = decode(x);
    if (parts.significand == 0) return true;
    const int shift = parts.exponent - exponent;
    if (shift > 73) return false;
    Fixed128 term = {0, parts.significand};
    if (shift >= 0) {
      term = term.shifted_left(shift);
    } else {
      if (shift < -52 || (parts.significand & ((uint64_t{1} << -shift) - 1)) != 0) return false;
      term.low >>= -shift;
    }
    *this = plus(reprocuda::is_negative(x) ? term.negated() : term);
    return true;
  }
};

// +-significand * 2^shift, cut off towards zero to a multiple of 2^unit_bits; *cut_off says whether anything was lost. The
// magnitude must be below 2^127, and unit_bits below 64.
REPROCUDA_HD Fixed128 truncate_scaled(uint64_t significand, int shift, bool negative, int unit_bits, bool* cut_off) {
  Fixed128 value = {0, significand};
  uint64_t lost = 0;
  if (shift >= 0) {
    value = value.shifted_left(shift);
  } else if (shift > -64) {
    value.low = significand >> -shift;
    lost = significand & ((uint64_t{1} << -shift) - 1);
  } else {
    value.low = 0;
    lost = significand;
  }
  const uint64_t below_unit = (uint64_t{1} << unit_bits) - 1;
  *cut_off = (lost | (value.low & below_unit)) != 0;
  value.low &= ~below_unit;
  return negative ? value.negated() : value;
}

// The value, plus a fraction of one unit inside (0, 1) if `sticky` (what an arithmetic shift to the right cut off), rounded
// once. An exact zero is -0 only if `all_negative_zero`. `sticky` needs |value| >= 2^(kPrecision + 2).
template <class T>
REPROCUDA_HD T round_fixed(Fixed128 value, int exponent, bool sticky, bool all_negative_zero) {
  if (value.is_zero() && !sticky) return zero<T>(all_negative_zero);
  if (!value.is_negative()) {
    return round_scaled_wide<T>(false, static_cast<uint64_t>(value.high), value.low, exponent, sticky);
  }
  // -(v + fraction) is (-v - 1) + (1 - fraction), and -v - 1 is ~v.
  const Fixed128 flipped = {~value.high, ~value.low};
  const Fixed128 size = sticky ? flipped : value.negated();
  return round_scaled_wide<T>(true, static_cast<uint64_t>(size.high), size.low, exponent, sticky);
}

// For an exact value anywhere in [value - below, value + above] units: true, and the correctly rounded result, if every
// candidate rounds to the same bits. `value` must stay 2^63 units away from wrapping. With below == above == 0 it always
// succeeds. Contributions cut off towards zero give below = above = their number; cut off downwards, below = 0.
template <class T>
REPROCUDA_HD bool certify_fixed(Fixed128 value, int exponent, int64_t below, int64_t above, bool all_negative_zero,
                                T* result) {
  const bool exact = below == 0 && above == 0;
  const T high = round_fixed<T>(value.plus(Fixed128::from_integer(above)), exponent, false, exact && all_negative_zero);
  *result = high;
  if (exact) return true;
  // An end that is exactly zero stands for +0: a sum that is not known exactly is not a sum of -0 alone.
  const T low = round_fixed<T>(value.plus(Fixed128::from_integer(-below)), exponent, false, false);
  return bits_of(low) == bits_of(high);
}

// Divides the 128-bit number in place; true if there is a remainder.
REPROCUDA_HD bool divide_wide(uint64_t divisor, uint64_t* high, uint64_t* low) {
  uint64_t rest = 0;
  uint64_t words[2] = {*high, *low};
  if (divisor >> 32 == 0) {
    REPROCUDA_ROLLED
    for (uint64_t& word : words) {
      const uint64_t upper = (rest << 32) | (word >> 32);
      const uint64_t lower = ((upper % divisor) << 32) | (word & 0xffffffffu);
      rest = lower % divisor;
      word = ((upper / divisor) << 32) | (lower / divisor);
    }
  } else {
    REPROCUDA_ROLLED
    for (uint64_t& word : words) {
      uint64_t quotient = 0;
      REPROCUDA_ROLLED
      for (int bit = 63; bit >= 0; --bit) {
        rest = (rest << 1) | ((word >> bit) & 1);
        const bool fits = rest >= divisor;
        rest -= fits ? divisor : 0;
        quotient = (quotient << 1) | (fits ? 1 : 0);
      }
      word = quotient;
    }
  }
  *high = words[0];
  *low = words[1];
  return rest != 0;
}

}  // namespace reprocuda
