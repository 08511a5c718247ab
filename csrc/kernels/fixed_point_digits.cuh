// Floating-point numbers as sums of digits: integers at fixed places that 64-bit integer atomics add without rounding.
//
// A Placement cuts the number line at the exponents top_unit, top_unit - width, top_unit - 2 * width, ... Digit j of x is
// the part of x between two cuts, as a multiple of the lower one, with the sign of x. Guarantee: the digits of x add up to x
// once the cuts reach below its last bit; a limb that adds one digit of each of `most` contributions cannot overflow.
// Why: |x| < 2^(top + 1) for the largest finite x, and head_bits = ceil(log2(most)) is left free above it:
// most * 2^(top + 1 - top_unit) <= 2^62, and the same for the lower digits, which are below 2^width = 2^(62 - head_bits).
// Cost: a few shifts a digit; nothing depends on a floating-point mode.
#pragma once

#include "../numerics/bits.h"
#include "device.cuh"

namespace reprocuda {

// What kinds of contribution an output has seen. Zero and infinite ones leave no trace in the digits.
inline constexpr uint32_t kPositive = 1;  // finite and > 0
inline constexpr uint32_t kNegative = 2;
inline constexpr uint32_t kPositiveZero = 4;
inline constexpr uint32_t kNegativeZero = 8;
inline constexpr uint32_t kPositiveInfinity = 16;
inline constexpr uint32_t kNegativeInfinity = 32;
inline constexpr uint32_t kNotANumber = 64;
inline constexpr uint32_t kAllClasses = 127;

template <class T>
REPROCUDA_HD uint64_t magnitude_of(T x) {
  return bits_of(x) & (FloatFormat<T>::kSign - 1);
}

template <class T>
REPROCUDA_HD bool is_negative_value(T x) {
  return (bits_of(x) & FloatFormat<T>::kSign) != 0;
}

// |x| = significand * 2^(FloatFormat<T>::kUnitExponent + position) for a finite x; position >= 0.
struct Significand {
  uint64_t value;
  int position;
};

template <class T>
REPROCUDA_HD Significand split_magnitude(uint64_t magnitude) {
  using F = FloatFormat<T>;
  const int field = static_cast<int>(magnitude >> F::kFractionBits);
  const uint64_t fraction = magnitude & ((uint64_t{1} << F::kFractionBits) - 1);
  return field == 0 ? Significand{fraction, 0} : Significand{fraction | (uint64_t{1} << F::kFractionBits), field - 1};
}

template <class T>
REPROCUDA_HD uint32_t class_of(T x) {
  const uint64_t magnitude = magnitude_of(x);
  if (magnitude > FloatFormat<T>::kInfinity) return kNotANumber;
  const uint32_t positive = magnitude == 0                            ? kPositiveZero
                            : magnitude == FloatFormat<T>::kInfinity ? kPositiveInfinity
                                                                      : kPositive;
  return is_negative_value(x) ? positive << 1 : positive;
}

// A look at a word that others update atomically meanwhile: possibly old, never torn.
template <class Word>
__device__ __forceinline__ Word peek(const Word* word) {
  return *static_cast<const volatile Word*>(word);
}

// Most contributions find their flag set already: look before asking for an atomic.
template <class Word>
__device__ __forceinline__ void raise_flags(Word* word, uint32_t flags) {
  if ((peek(word) & flags) != flags) atomicOr(word, flags);
}

struct Placement {
  int top_unit;  // exponent of the unit of digit 0
  int width;     // bits of every further digit
  int digits;    // that many represent every contribution exactly

  REPROCUDA_HD int unit(int digit) const { return top_unit - digit * width; }
};

// ceil(log2(most)), at least 1
inline int head_bits(int64_t most) {
  int bits = 1;
  while (bits < 61 && (int64_t{1} << bits) < most) ++bits;
  return bits;
}

// For contributions whose finite magnitudes are 0 or between these two, given as bits.
template <class T>
REPROCUDA_HD Placement place_digits(uint64_t smallest, uint64_t largest, int head_bits) {
  using F = FloatFormat<T>;
  const int end = split_magnitude<T>(largest).position + F::kUnitExponent + F::kPrecision;  // |x| < 2^end
  const int last = split_magnitude<T>(smallest).position + F::kUnitExponent;                // all are multiples of 2^last
  const int width = 62 - head_bits;
  const int wanted = end - width;
  const int top_unit = wanted > F::kUnitExponent ? wanted : F::kUnitExponent;
  return {top_unit, width, top_unit <= last ? 1 : 1 + (top_unit - last + width - 1) / width};
}

// Calls emit(j, digit) for the digits 0 .. count - 1 of +-significand * 2^exponent that are not zero; true if bits remain.
template <class Emit>
REPROCUDA_HD bool split_digits(uint64_t significand, int exponent, bool negative, Placement placement, int count,
                               Emit&& emit) {
  int unit = placement.top_unit;
  for (int j = 0; j < count && significand != 0; ++j, unit -= placement.width) {
    const int shift = exponent - unit;
    uint64_t digit = 0;
    if (shift >= 0) {
      digit = significand << shift;
      significand = 0;
    } else if (shift > -64) {
      digit = significand >> -shift;
      significand &= (uint64_t{1} << -shift) - 1;
    }
    if (digit != 0) emit(j, static_cast<int64_t>(negative ? 0 - digit : digit));
  }
  return significand != 0;
}

}  // namespace reprocuda
