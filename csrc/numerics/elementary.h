// exp and log of a double as one sequence of IEEE additions, multiplications and divisions, and sqrt as the one IEEE
// operation that it is: the same bits on every machine that rounds to nearest and keeps subnormals. No fused operation takes
// part, so that none is needed either.
//
// Method: argument reduction by a multiple of ln 2 in two parts (W. J. Cody, W. Waite, Software Manual for the Elementary
// Functions, 1980), a polynomial on what remains, and a sum whose leading addition is done without error (P. T. P. Tang,
// ACM TOMS 15, 1989, and 16, 1990). The polynomials pass through the function at Chebyshev points; tests/numerics/
// test_elementary.py derives their coefficients anew.
// Guarantee: the error is below 0.7 of the last bit for exp (one bit where the result is subnormal) and below 0.9 for log;
// rounded once more to float32 that is the correctly rounded result but for about one argument in 2^28.
// Special values are those of IEEE 754; every NaN is the quiet one.
// Cost: some 40 operations without a branch or a table, which compilers turn into vectors; log has one division.
#pragma once

#include "bits.h"

namespace reprocuda {

namespace detail {

// ln 2 = kLn2High + kLn2Low; the first has 41 bits, so that its product with an exponent is exact.
inline constexpr double kLn2High = 0x1.62e42fefa3000p-1;
inline constexpr double kLn2Low = 0x1.3de6af278ece6p-42;

template <int kCount>
REPROCUDA_HD double polynomial(const double (&coefficients)[kCount], double x) {
  double value = coefficients[kCount - 1];
#pragma GCC unroll 16
  for (int k = kCount - 2; k >= 0; --k) value = value * x + coefficients[k];
  return value;
}

// (exp(r) - 1 - r) / r^2 for |r| <= ln(2) / 2.
REPROCUDA_HD double exp_polynomial(double r) {
  constexpr double kExpCoefficients[] = {
      0x1.0000000000000p-1,  0x1.5555555555557p-3,  0x1.5555555555556p-5,  0x1.11111111100dfp-7,
      0x1.6c16c16c162d6p-10, 0x1.a01a01abe62ddp-13, 0x1.a01a01a6d7808p-16, 0x1.71de02375656cp-19,
      0x1.27e4db67b4303p-22, 0x1.af4ddd84882fep-26, 0x1.1f72fc730b4ffp-29,
  };
  return polynomial(kExpCoefficients, r);
}

// (log((1 + s) / (1 - s)) - 2 s) / s^3 in powers of s^2, for s = f / (2 + f) and 1 + f in [sqrt(1/2), sqrt(2)].
REPROCUDA_HD double log_polynomial(double z) {
  constexpr double kLogCoefficients[] = {
      0x1.5555555555558p-1, 0x1.99999999952e2p-2, 0x1.2492492df148dp-2, 0x1.c71c62e5800a1p-3,
      0x1.7462b4ab2ef6bp-3, 0x1.39fe606542ddep-3, 0x1.2b584aae78a57p-3,
  };
  return polynomial(kLogCoefficients, z);
}

// Masks instead of branches, where compilers see control flow that they would not make vectors of.
REPROCUDA_HD double select(bool condition, double yes, double no) {
  const uint64_t mask = ~(static_cast<uint64_t>(condition) - 1);
  return from_bits<double>((bits_of(yes) & mask) | (bits_of(no) & ~mask));
}

// 2^n for an n, in two's complement, of a normal number.
REPROCUDA_HD double power_of_two(uint64_t n) { return from_bits<double>((n + 1023) << 52); }

}  // namespace detail

REPROCUDA_HD double exp_of(double x) {
  constexpr double kLog2E = 0x1.71547652b82fep+0;
  constexpr double kToInteger = 0x1.8p52;  // added, it leaves an integer in the last bits
  constexpr double kOverflow = 710.0;      // beyond either of these the result is that of the bound
  constexpr double kUnderflow = -746.0;
  const double above = detail::select(x < kUnderflow, kUnderflow, x);
  const double t = detail::select(x > kOverflow, kOverflow, above);

  const double shifted = t * kLog2E + kToInteger;
  const uint64_t exponent = bits_of(shifted) - bits_of(kToInteger);
  const double n = shifted - kToInteger;
  const double high = t - n * detail::kLn2High;  // exact
  const double low = n * detail::kLn2Low;
  const double r = high - low;
  const double r_rest = (high - r) - low;

  const double tail = r_rest + r * r * detail::exp_polynomial(r);
  const double sum = 1.0 + r;
  const double sum_rest = r - (sum - 1.0);  // exact
  const double y = sum + (sum_rest + tail);

  // In two steps: 2^n itself may be no normal number. The first is exact.
  const uint64_t half = ((exponent + 4096) >> 1) - 2048;
  const double result = y * detail::power_of_two(half) * detail::power_of_two(exponent - half);
  return detail::select(x == x, result, canonical_nan<double>());
}

REPROCUDA_HD double log_of(double x) {
  constexpr uint64_t kOne = 0x3ff0000000000000;
  constexpr uint64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  constexpr uint64_t kTwoTo52 = 0x4330000000000000;
  const bool is_small = x < 0x1p-1022;
  const double normal = x * detail::select(is_small, 0x1p54, 1.0);

  // x = 2^n (1 + f)
  const uint64_t bits = bits_of(normal) + (kOne - kSqrtHalf);
  const double n = from_bits<double>((bits >> 52) | kTwoTo52) - detail::select(is_small, 0x1p52 + 1023 + 54, 0x1p52 + 1023);
  const double f = from_bits<double>((bits & kFractionMask) + kSqrtHalf) - 1.0;  // exact

  // log(1 + f) = f - (half - s (half + rest)), where half = f^2 / 2
  const double s = f / (2.0 + f);
  const double z = s * s;
  const double half = 0.5 * (f * f);
  const double rest = z * detail::log_polynomial(z);
  const double high = n * detail::kLn2High;  // exact
  const double sum = high + f;
  const double sum_rest = f - (sum - high);  // exact: high is 0, or larger than f
  const double result = sum + (sum_rest + (n * detail::kLn2Low - (half - s * (half + rest))));

  const double positive = detail::select(x < infinity<double>(false), result, x);
  const double from_zero = detail::select(x == 0.0, infinity<double>(true), positive);
  return detail::select(x >= 0.0, from_zero, canonical_nan<double>());
}

// Correctly rounded, as are float32 and narrower results that are rounded once more from it: 53 bits are more than twice 24
// and two (S. A. Figueroa, SIGNUM Newsletter 30, 1995). Vector libraries' roots are not.
REPROCUDA_HD double sqrt_of(double x) {
#ifdef __CUDA_ARCH__
  const double root = __dsqrt_rn(x);
#else
  const double root = __builtin_sqrt(x);
#endif
  return detail::select(root == root, root, canonical_nan<double>());
}

}  // namespace reprocuda
