// The filters for products: a magnitude of moderate size, an integer exponent that takes what does not fit, and a sign.
//
// Guarantee: when certify_product returns true, *result is the exact product rounded once. Fewer than 2^40 factors, in any
// order and split. Zeros, infinities and NaNs pass through the ordinary multiplications (0 * inf is NaN), and are then the
// answer themselves, because no finite magnitude overflows or underflows on the way. Gradual underflow and overflow happen
// to the result only, in its rounding.
//
// 16- and 32-bit floats: two directed fp64 products enclose the exact one (ProductInterval). A product that is a tie has an
// odd part of at most 25 bits, and so has every partial product, in any order: ties are exact, and both ends meet in them.
// fp64: a double-double (CompensatedProduct) that counts its inexact steps, each of which loses less than 2^-103 of it. It
// serves narrower formats as well.
#pragma once

#include "double_double.h"

namespace reprocuda {

// The sign in the last bit, a mark whether there was any factor in the one before, and the exponent above.
struct ProductTail {
  static constexpr int64_t kTouched = 2;
  static constexpr int kExponentShift = 2;
  static constexpr int64_t kFlags = 3;
  // A magnitude is kept within [1 / kLimit, kLimit], which leaves room for a few factors or for a merge.
  static constexpr int kLimitExponent = 400;
  static constexpr double kLimit = 0x1p400;

  static REPROCUDA_HD int64_t merge(int64_t a, int64_t b) {
    return ((a ^ b) & 1) | ((a | b) & kTouched) | ((a & ~kFlags) + (b & ~kFlags));
  }
};

namespace detail {

// An exponent that no format reaches is as good as any other of them.
REPROCUDA_HD int clamped_exponent(int64_t exponent) {
  constexpr int64_t kFar = 100000;
  return static_cast<int>(exponent < -kFar ? -kFar : exponent > kFar ? kFar : exponent);
}

template <class T>
REPROCUDA_HD T round_magnitude(bool negative, double magnitude, int64_t exponent) {
  const Decoded parts = decode(magnitude);
  return round_scaled<T>(negative, parts.significand, clamped_exponent(parts.exponent + exponent), false);
}

// Settles products with a factor of 0, infinity or NaN.
template <class T>
REPROCUDA_HD bool classify_product(bool negative, double magnitude, T* result) {
  if (is_nan(magnitude)) {
    *result = canonical_nan<T>();
  } else if (!is_finite(magnitude)) {
    *result = infinity<T>(negative);
  } else if (is_zero(magnitude)) {
    *result = zero<T>(negative);
  } else {
    return false;
  }
  return true;
}

}  // namespace detail

// low <= |product| / 2^exponent <= high.
template <class T>
REPROCUDA_HD bool certify_product(int64_t tail, double low, double high, T* result) {
  const bool negative = (tail & 1) != 0;
  if (detail::classify_product(negative, high, result)) return true;
  const int64_t exponent = tail >> ProductTail::kExponentShift;
  *result = detail::round_magnitude<T>(negative, high, exponent);
  return low == high || bits_of(detail::round_magnitude<T>(negative, low, exponent)) == bits_of(*result);
}

// product / 2^scale is head + rest, but for a relative error of inexact * 2^-103.
template <class T>
REPROCUDA_HD bool certify_product(int64_t scale, double head, double rest, double inexact, T* result) {
  const bool negative = is_negative(head);
  if (detail::classify_product(negative, magnitude(head), result)) return true;
  // Its magnitude as a 128-bit integer high * 2^64 + low in units of 2^(exponent of the head's last bit - 64).
  const Decoded upper = decode(head);
  const Decoded lower = decode(rest);
  const int shift = lower.exponent - (upper.exponent - 64);
  uint64_t amount = 0;
  bool sticky = lower.significand != 0;
  if (shift >= 0) {
    amount = sticky ? lower.significand << shift : 0;
    sticky = false;
  } else if (shift > -64) {
    amount = lower.significand >> -shift;
    sticky = (lower.significand & ((uint64_t{1} << -shift) - 1)) != 0;
  }
  uint64_t high = upper.significand;
  uint64_t low = amount;
  if (is_negative(rest) != negative) {
    const uint64_t borrowed = amount + (sticky ? 1 : 0);
    low = 0 - borrowed;
    high -= borrowed != 0 ? 1 : 0;
  }
  const int exponent = detail::clamped_exponent(upper.exponent - 64 + scale);
  if (inexact == 0.0) {
    *result = round_scaled_wide<T>(negative, high, low, exponent, sticky);
    return true;
  }
  const uint64_t error = static_cast<uint64_t>(inexact) << 14;  // the head is below 2^117 of these units
  const T least = round_scaled_wide<T>(negative, high - (low < error ? 1 : 0), low - error, exponent, false);
  const uint64_t most_low = low + error + 1;
  *result = round_scaled_wide<T>(negative, high + (most_low < low ? 1 : 0), most_low, exponent, false);
  return bits_of(least) == bits_of(*result);
}

struct ProductInterval {
  double low;
  double high;
  int64_t tail;

  static REPROCUDA_HD ProductInterval empty() { return {1.0, 1.0, 0}; }

  REPROCUDA_HD void multiply(double x) {
    tail = (tail ^ static_cast<int64_t>(bits_of(x) >> 63)) | ProductTail::kTouched;
    multiply_ends(magnitude(x), magnitude(x));
  }

  REPROCUDA_HD void merge(const ProductInterval& other) {
    tail = ProductTail::merge(tail, other.tail);
    multiply_ends(other.low, other.high);
  }

 private:
  REPROCUDA_HD void multiply_ends(double other_low, double other_high) {
    low = directed_multiply<Rounding::kDown>(low, other_low);
    high = directed_multiply<Rounding::kUp>(high, other_high);
    if (high >= ProductTail::kLimit && is_finite(high)) {
      rescale(1.0 / ProductTail::kLimit, ProductTail::kLimitExponent);
    } else if (high < 1.0 / ProductTail::kLimit && !is_zero(high)) {
      rescale(ProductTail::kLimit, -ProductTail::kLimitExponent);
    }
  }

  REPROCUDA_HD void rescale(double factor, int64_t exponent) {
    low *= factor;
    high *= factor;
    tail += exponent * (1 << ProductTail::kExponentShift);
  }
};

// x as a factor of 1 <= magnitude < 2, and the power of two beside it; 0, infinity and NaN as they are.
struct SplitFactor {
  double magnitude;
  int64_t exponent;
};

REPROCUDA_HD SplitFactor split_factor(double x) {
  const int field = static_cast<int>(magnitude_bits(x) >> 52);
  if (field != 0 && field != 0x7ff) return {from_bits<double>((bits_of(x) & kFractionMask) | bits_of(1.0)), field - 1023};
  if (!detail::is_ordinary(x)) return {magnitude(x), 0};
  const Decoded parts = detail::decode_normalized(x);
  return {from_bits<double>((parts.significand >> 11 & kFractionMask) | bits_of(1.0)), parts.exponent + 63};
}

// Needs round-to-nearest, FTZ and DAZ off, and no contraction.
struct CompensatedProduct {
  // The head is kept within [1 / kLimit, kLimit]: then no product of two parts has bits below the last subnormal.
  static constexpr int kLimitExponent = 200;
  static constexpr double kLimit = 0x1p200;
  // Factors within [1 / kNear, kNear] need no splitting.
  static constexpr double kNear = 0x1p100;

  // Untouched as long as `inexact` is -0, which no factor leaves behind.
  static constexpr double kUntouched = -0.0;

  double head;
  double rest;
  int64_t scale;
  double inexact;

  static REPROCUDA_HD CompensatedProduct empty() { return {1.0, 0.0, 0, kUntouched}; }

  REPROCUDA_HD void multiply(double x) {
    double factor = x;
    if (!is_within<kNear>(x)) {
      const SplitFactor split = split_factor(x);
      factor = is_negative(x) ? -split.magnitude : split.magnitude;
      scale += split.exponent;
    }
    const double product = head * factor;
    const double low = fused_multiply_add(rest, factor, fused_multiply_add(head, factor, -product));
    // Of a rest of 0 nothing is lost; else some may be.
    replace(product, low, is_zero(rest) ? 0.0 : 2.0);
  }

  REPROCUDA_HD void merge(const CompensatedProduct& other) {
    scale += other.scale;
    const double product = head * other.head;
    double lost = 0.0;
    double low = fused_multiply_add(head, other.head, -product);
    low = add_product(low, rest, other.head, &lost);
    low = add_product(low, head, other.rest, &lost);
    low = add_product(low, rest, other.rest, &lost);
    replace(product, low, (is_zero(lost) ? kUntouched : 2.0) + other.inexact);
  }

 private:
  // By product + low.
  REPROCUDA_HD void replace(double product, double low, double more_inexact) {
    head = product + low;
    rest = low - (head - product);
    inexact += more_inexact;
    if (is_within<kLimit>(product)) return;
    if (!detail::is_ordinary(product)) {
      head = product;
      rest = 0.0;
    } else if (magnitude(product) > 1.0) {
      rescale(1.0 / kLimit, kLimitExponent);
    } else {
      rescale(kLimit, -kLimitExponent);
    }
  }

  // 1 / limit <= |x| <= limit.
  template <double kBound>
  static REPROCUDA_HD bool is_within(double x) {
    constexpr uint64_t kLeast = __builtin_bit_cast(uint64_t, 1.0 / kBound);
    constexpr uint64_t kMost = __builtin_bit_cast(uint64_t, kBound);
    return magnitude_bits(x) - kLeast <= kMost - kLeast;
  }

  // sum + a * b; what that loses is added to *lost, in magnitude.
  static REPROCUDA_HD double add_product(double sum, double a, double b, double* lost) {
    const double product = a * b;
    const TwoSum total = two_sum(sum, product);
    *lost += magnitude(fused_multiply_add(a, b, -product)) + magnitude(total.error);
    return total.sum;
  }

  REPROCUDA_HD void rescale(double factor, int64_t exponent) {
    head *= factor;
    rest *= factor;
    scale += exponent;
  }
};

}  // namespace reprocuda
