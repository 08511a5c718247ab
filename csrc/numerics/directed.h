// Directed fp64 arithmetic: the largest double not above, or the smallest not below, the exact result, signed zeros as in
// IEEE 754 (an exact zero sum of unlike terms is -0 rounding down and +0 rounding up).
//
// On a device these are single instructions. Elsewhere addition and multiplication need the round-to-nearest mode with FTZ
// and DAZ off; division is integer arithmetic and depends on no mode. A product that is not zero must lie in
// [2^-900, 2^1000], where its rounding error is a double.
#pragma once

#include "rounding.h"

namespace reprocuda {

namespace detail {

// The neighbour towards -infinity; `value` is finite and not zero.
REPROCUDA_HD double next_down(double value) { return from_bits<double>(bits_of(value) + (is_negative(value) ? 1 : -1)); }

REPROCUDA_HD double add_down(double a, double b) {
  const double sum = a + b;
  if (!is_finite(sum)) {
    const bool overflow_up = bits_of(sum) == kInfinityBits && is_finite(a) && is_finite(b);
    return overflow_up ? from_bits<double>(kInfinityBits - 1) : sum;
  }
  if (sum == 0.0) return bits_of(a) == bits_of(b) ? a : zero<double>(true);
  // Larger term first: this form of the error is exact and cannot overflow.
  const bool a_first = magnitude_bits(a) >= magnitude_bits(b);
  const double large = a_first ? a : b;
  const double small = a_first ? b : a;
  const double error = small - (sum - large);
  return error < 0.0 ? next_down(sum) : sum;
}

REPROCUDA_HD bool is_ordinary(double value) { return is_finite(value) && !is_zero(value); }

// The significand shifted up until its leading bit is bit 63.
REPROCUDA_HD Decoded decode_normalized(double value) {
  const Decoded parts = decode(value);
  const int shift = leading_zeros(parts.significand);
  return {parts.significand << shift, parts.exponent - shift};
}

#ifndef __CUDA_ARCH__
template <Rounding kRounding>
inline double divide(double a, double b) {
  if (!is_ordinary(a) || !is_ordinary(b)) return a / b;
  __extension__ typedef unsigned __int128 Wide;
  const Decoded x = decode_normalized(a);
  const Decoded y = decode_normalized(b);
  const Wide dividend = static_cast<Wide>(x.significand) << 63;
  // Both significands are in [2^63, 2^64), so the quotient is in (2^62, 2^64).
  const uint64_t quotient = static_cast<uint64_t>(dividend / y.significand);
  const bool remainder = static_cast<Wide>(quotient) * y.significand != dividend;
  return round_scaled<double, kRounding>(is_negative(a) != is_negative(b), quotient, x.exponent - y.exponent - 63,
                                         remainder);
}
#endif

}  // namespace detail

// kRounding is kDown or kUp.
template <Rounding kRounding>
REPROCUDA_HD double directed_add(double a, double b) {
#ifdef __CUDA_ARCH__
  return kRounding == Rounding::kDown ? __dadd_rd(a, b) : __dadd_ru(a, b);
#else
  return kRounding == Rounding::kDown ? detail::add_down(a, b) : -detail::add_down(-a, -b);
#endif
}

template <Rounding kRounding>
REPROCUDA_HD double directed_multiply(double a, double b) {
#ifdef __CUDA_ARCH__
  return kRounding == Rounding::kDown ? __dmul_rd(a, b) : __dmul_ru(a, b);
#else
  const double product = a * b;
  if (!detail::is_ordinary(product)) return product;
  const double error = __builtin_fma(a, b, -product);
  if (error == 0.0 || (error < 0.0) != (kRounding == Rounding::kDown)) return product;
  return kRounding == Rounding::kDown ? detail::next_down(product) : -detail::next_down(-product);
#endif
}

template <Rounding kRounding>
REPROCUDA_HD double directed_divide(double a, double b) {
#ifdef __CUDA_ARCH__
  return kRounding == Rounding::kDown ? __ddiv_rd(a, b) : __ddiv_ru(a, b);
#else
  return detail::divide<kRounding>(a, b);
#endif
}

}  // namespace reprocuda
