// Rounding once, to nearest with ties to even, into any of the four formats.
//
// Integer arithmetic only on the host: the result depends on no rounding mode and no flush-to-zero flag, so it may be called
// while a worker accumulates in a directed mode. A device has no modes, and its conversions name their rounding. A nonzero
// value that rounds to zero keeps its sign; one that rounds past the largest finite number becomes the infinity; a NaN
// becomes the canonical quiet NaN.
#pragma once

#include "bits.h"

namespace reprocuda {

enum class Rounding { kNearest, kDown, kUp };

// Rounds (significand + fraction) * 2^exponent, where the fraction is 0, or somewhere inside (0, 1) if `sticky`.
// `sticky` needs a significand of at least kPrecision + 2 bits: otherwise bits that decide are missing.
template <class T, Rounding kRounding = Rounding::kNearest>
REPROCUDA_HD T round_scaled(bool negative, uint64_t significand, int exponent, bool sticky) {
  using F = FloatFormat<T>;
  if (significand == 0) return zero<T>(negative);
  const bool outward = (kRounding == Rounding::kUp && !negative) || (kRounding == Rounding::kDown && negative);
  const uint64_t overflowed = F::kInfinity - ((kRounding == Rounding::kNearest || outward) ? 0 : 1);
  const uint64_t sign = negative ? F::kSign : 0;

  const int top = exponent + 63 - leading_zeros(significand);  // |value| is in [2^top, 2^(top + 1))
  if (top > F::kMaxExponent) return from_bits<T>(overflowed | sign);
  // `unit` is the exponent of the last bit that the result keeps.
  const int unit = top - F::kFractionBits > F::kUnitExponent ? top - F::kFractionBits : F::kUnitExponent;
  const int dropped = unit - exponent;

  uint64_t kept = 0;
  bool half = false;   // the first bit cut off
  bool rest = sticky;  // anything behind it
  if (dropped <= 0) {
    kept = significand << -dropped;
  } else if (dropped < 64) {
    kept = significand >> dropped;
    half = (significand >> (dropped - 1)) & 1;
    rest = rest || (significand & ((uint64_t{1} << (dropped - 1)) - 1)) != 0;
  } else {
    half = dropped == 64 && (significand >> 63) != 0;
    rest = rest || dropped > 64 || (significand << 1) != 0;
  }
  if constexpr (kRounding == Rounding::kNearest) {
    kept += half && (rest || (kept & 1)) ? 1 : 0;
  } else {
    kept += outward && (half || rest) ? 1 : 0;
  }
  // The leading bit of `kept` carries into the exponent field, and so does a carry out of the rounding.
  const uint64_t magnitude = (static_cast<uint64_t>(unit - F::kUnitExponent) << F::kFractionBits) + kept;
  return from_bits<T>((magnitude >= F::kInfinity ? overflowed : magnitude) | sign);
}

// The same for the 128-bit significand high * 2^64 + low.
template <class T>
REPROCUDA_HD T round_scaled_wide(bool negative, uint64_t high, uint64_t low, int exponent, bool sticky) {
  if (high == 0) return round_scaled<T>(negative, low, exponent, sticky);
  const int shift = leading_zeros(high);
  const uint64_t significand = shift == 0 ? high : (high << shift) | (low >> (64 - shift));
  return round_scaled<T>(negative, significand, exponent + 64 - shift, sticky || (low << shift) != 0);
}

template <class T>
REPROCUDA_HD T round_to(double value) {
  using F = FloatFormat<T>;
  using D = FloatFormat<double>;
  const uint64_t magnitude = magnitude_bits(value);
  const uint64_t sign = is_negative(value) ? F::kSign : 0;
  if (magnitude > D::kInfinity) return canonical_nan<T>();
  if constexpr (F::kFractionBits == D::kFractionBits) {
    return value;
  } else {
#ifdef __CUDA_ARCH__
    if constexpr (F::kFractionBits == FloatFormat<float>::kFractionBits) {
      return __double2float_rn(value);
    } else if constexpr (F::kFractionBits == FloatFormat<Half>::kFractionBits) {
      uint16_t rounded;
      asm("cvt.rn.f16.f64 %0, %1;" : "=h"(rounded) : "d"(value));
      return from_bits<T>(rounded);
    } else if constexpr (F::kFractionBits == FloatFormat<BFloat16>::kFractionBits) {
      // To odd first: a last bit that tells of what was cut off keeps the second rounding right.
      const float towards_zero = __double2float_rz(value);
      const uint32_t odd = bits_of(towards_zero) | (static_cast<double>(towards_zero) != value ? 1 : 0);
      return from_bits<T>((odd + 0x7fff + ((odd >> 16) & 1)) >> 16);
    }
#endif
    constexpr int kDropped = D::kFractionBits - F::kFractionBits;
    constexpr uint64_t kRebias = static_cast<uint64_t>(D::kBias - F::kBias) << F::kFractionBits;
    constexpr uint64_t kSmallestNormal = static_cast<uint64_t>(D::kBias - F::kBias + 1) << D::kFractionBits;
    if (magnitude >= kSmallestNormal) {
      const uint64_t odd = (magnitude >> kDropped) & 1;
      const uint64_t rounded = ((magnitude + (uint64_t{1} << (kDropped - 1)) - 1 + odd) >> kDropped) - kRebias;
      return from_bits<T>((rounded < F::kInfinity ? rounded : F::kInfinity) | sign);
    }
    const Decoded parts = decode(value);
    return round_scaled<T>(sign != 0, parts.significand, parts.exponent, false);
  }
}

}  // namespace reprocuda
