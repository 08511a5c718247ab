// The filter for fp64 data: a double-double sum that also measures what it loses.
//
// The exact sum is sum + error + lost with |lost| <= 2 * residual, for up to 2^50 additions and merges in any order: sum and
// error each collect terms by an exact two-sum, and residual is the plain sum of the magnitudes that even error drops.
// Guarantee: when certify returns true, *result is the exact sum rounded once.
//
// `scaled` is the sum of the contributions times 2^-100. It cannot overflow, so it is not finite if and only if a
// contribution is not, and then it is the answer. An infinite `sum` proves nothing of the kind: a partial sum may have
// overflowed. That, and a product whose error term may be inexact, go to the exact fallback.
//
// Everything here needs round-to-nearest, FTZ and DAZ off, and no contraction. `sum` is -0 if and only if every
// contribution is, since only -0 + -0 gives -0 in that mode.
#pragma once

#include "directed.h"

namespace reprocuda {

struct TwoSum {
  double sum;
  double error;
};

REPROCUDA_HD TwoSum two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

REPROCUDA_HD double magnitude(double value) { return from_bits<double>(magnitude_bits(value)); }

REPROCUDA_HD double fused_multiply_add(double a, double b, double c) {
#ifdef __CUDA_ARCH__
  return __fma_rn(a, b, c);
#else
  return __builtin_fma(a, b, c);
#endif
}

struct CompensatedSum {
  double sum;
  double error;
  double residual;
  double scaled;

  static constexpr double kScale = 0x1p-100;
  // Below this a product may have bits under 2^-1074, which no error term can hold.
  static constexpr double kSmallestExactProduct = 0x1p-968;

  static REPROCUDA_HD CompensatedSum empty() { return {-0.0, 0.0, 0.0, -0.0}; }

  REPROCUDA_HD void add(double x) {
    add_term(x);
    scaled += x * kScale;
  }

  // Adds w * x exactly, or sets *inexact: the sum is then worthless, although `scaled` stays right.
  REPROCUDA_HD void add_product(double w, double x, bool* inexact) {
    const double product = w * x;
    if (!is_finite(product)) {
      const bool overflow = is_finite(w) && is_finite(x);
      *inexact = *inexact || overflow;
      sum += product;
      scaled += overflow ? 0.0 : product;
      return;
    }
    if (magnitude(product) < kSmallestExactProduct && !is_zero(w) && !is_zero(x)) *inexact = true;
    add_term(product);
    add_error(fused_multiply_add(w, x, -product));
    scaled += product * kScale;
  }

  REPROCUDA_HD void merge(const CompensatedSum& other) {
    add_term(other.sum);
    add_error(other.error);
    residual += other.residual;
    scaled += other.scaled;
  }

  REPROCUDA_HD bool certify(double* result) const {
    if (classify(result)) return true;
    const TwoSum head = two_sum(sum, error);
    if (!is_usable(head)) return false;
    const double slack = 2.0 * residual;
    const double low = directed_add<Rounding::kDown>(head.error, -slack);
    const double high = directed_add<Rounding::kUp>(head.error, slack);
    return agree(head.sum + low, head.sum + high, result);
  }

  // The exact sum over the exact count, 1 <= count <= 2^53.
  REPROCUDA_HD bool certify_mean(int64_t count, double* result) const {
    if (classify(result)) return true;
    const TwoSum head = two_sum(sum, error);
    if (!is_usable(head)) return false;
    const double divisor = static_cast<double>(count);
    const double quotient = head.sum / divisor;
    // A remainder of division is always a double: a multiple of 2^-1074, no larger than divisor * ulp(quotient) / 2.
    const double remainder = fused_multiply_add(-quotient, divisor, head.sum);
    const double slack = 2.0 * residual;
    const double low = correction<Rounding::kDown>(remainder, head.error, -slack, divisor);
    const double high = correction<Rounding::kUp>(remainder, head.error, slack, divisor);
    return agree(quotient + low, quotient + high, result);
  }

 private:
  // (remainder + error + slack) / divisor, every step in one direction.
  template <Rounding kRounding>
  static REPROCUDA_HD double correction(double remainder, double error, double slack, double divisor) {
    const double end = directed_add<kRounding>(error, slack);
    return directed_divide<kRounding>(directed_add<kRounding>(remainder, end), divisor);
  }

  REPROCUDA_HD void add_term(double x) {
    const TwoSum head = two_sum(sum, x);
    sum = head.sum;
    add_error(head.error);
  }

  REPROCUDA_HD void add_error(double x) {
    const TwoSum tail = two_sum(error, x);
    error = tail.sum;
    residual += magnitude(tail.error);
  }

  REPROCUDA_HD bool classify(double* result) const {
    if (is_finite(scaled)) return false;
    *result = is_nan(scaled) ? canonical_nan<double>() : scaled;
    return true;
  }

  REPROCUDA_HD bool is_usable(TwoSum head) const {
    return is_finite(head.sum) && is_finite(head.error) && is_finite(residual) && is_finite(2.0 * residual);
  }

  // Rounding is monotone, so two ends that round alike enclose one result. Both are zero only for an exact zero: a
  // nonzero residual keeps them apart, and without one they are head.sum plus its own rounding error.
  REPROCUDA_HD bool agree(double low, double high, double* result) const {
    *result = is_zero(high) ? zero<double>(bits_of(sum) == kSignBit) : high;
    return is_zero(high) ? is_zero(low) : bits_of(low) == bits_of(high);
  }
};

}  // namespace reprocuda
