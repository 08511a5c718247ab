// From limbs to an output: self + alpha * (the sum that the limbs hold), or that sum over its count, rounded once.
//
// Contributions are collected without alpha: alpha * x1 + alpha * x2 + ... is alpha * (x1 + x2 + ...), exactly, so limbs stay
// as narrow as the data. The products, self and all carries meet in one two's-complement integer wide enough for the bits
// that are really there. Guarantee: a settled result is the exact value rounded once, with the contract's rules for
// infinities, NaN, signed zeros and outputs without contributions; what cannot be known from the evidence is reported as
// unsettled, never guessed. Cost: about a hundred instructions for a plain sum, several hundred with alpha or a mean; spreads
// of more than 256 bits work in local memory.
#pragma once

#include "../numerics/fixed_point.h"
#include "fixed_point_digits.cuh"

namespace reprocuda {

// How limbs become outputs; a kernel parameter.
template <class T>
struct OutputRule {
  const T* self = nullptr;                          // [num_outputs]: one more contribution, or nullptr
  const T* kept = nullptr;                          // [num_outputs]: what an output without contributions keeps; nullptr: +0
  const unsigned long long* counts = nullptr;       // [num_targets]: contributions; nullptr: not counted, and self is kept
  bool divides = false;                             // by the counts, and self's
  bool scaled = false;                              // alpha is not 1
  bool pairs = false;                               // alpha is complex, and so are the outputs
  double real = 1.0;
  double imag = 0.0;
};

// A multiple of 2^exponent, with the sign apart.
struct Factor {
  uint64_t significand;
  int exponent;
  bool negative;

  static __device__ Factor from(double value) {
    const Decoded parts = decode(value);
    return {parts.significand, parts.exponent, is_negative(value)};
  }

  __device__ Fixed128 times(int64_t limb) const {
    uint64_t high = 0;
    uint64_t low = 0;
    multiply_wide(static_cast<uint64_t>(limb < 0 ? 0 - static_cast<uint64_t>(limb) : limb), significand, &high, &low);
    const Fixed128 size = {static_cast<int64_t>(high), low};
    return negative != (limb < 0) ? size.negated() : size;
  }
};

// What contributions of these classes turn into when multiplied by `factor`.
__device__ inline uint32_t classes_of_products(uint32_t classes, double factor) {
  if (is_nan(factor)) return classes == 0 ? 0 : kNotANumber;
  if (is_negative(factor)) {
    constexpr uint32_t kUpper = kPositive | kPositiveZero | kPositiveInfinity;
    classes = (classes & kUpper) << 1 | ((classes >> 1) & kUpper) | (classes & kNotANumber);
  }
  const uint32_t finite = classes & (kPositive | kNegative);
  const uint32_t zeros = classes & (kPositiveZero | kNegativeZero);
  const uint32_t infinities = classes & (kPositiveInfinity | kNegativeInfinity);
  if (is_zero(factor)) return (finite << 2) | zeros | (infinities != 0 ? kNotANumber : 0) | (classes & kNotANumber);
  if (!is_finite(factor)) return (finite << 4) | infinities | (zeros != 0 ? kNotANumber : 0) | (classes & kNotANumber);
  return classes;
}

// Words that always suffice. The lowest term is a product of the two smallest numbers (for fp32 with alpha widened to 53
// bits: 2^-(149 + 201)), the highest one of the two largest; 64 bits are left for carries.
template <class T>
inline constexpr int kSufficientWords = FloatFormat<T>::kExponentBits == 11 ? 67 : 12;
inline constexpr int kUsualWords = 4;

// Up to kWords * 64 bits of two's complement, lowest word first. Few words stay in registers, where their number is a
// constant; of many only as many as are needed are touched.
template <int kWords>
struct WideInteger {
  uint64_t word[kWords];
  int used;

  explicit __device__ WideInteger(int bits) : used(bits / 64 + 1) {
    for (int k = 0; k < size(); ++k) word[k] = 0;
  }

  __device__ int size() const { return kWords <= kUsualWords ? kWords : used; }

  // Adds value * 2^shift, shift >= 0.
  __device__ void add(Fixed128 value, int shift) {
    const int first = shift >> 6;
    const int bits = shift & 63;
    const uint64_t high = static_cast<uint64_t>(value.high);
    const uint64_t sign = value.is_negative() ? ~uint64_t{0} : 0;
    const uint64_t part0 = value.low << bits;
    const uint64_t part1 = (high << bits) | ((value.low >> 1) >> (63 - bits));
    const uint64_t part2 = (sign << bits) | ((high >> 1) >> (63 - bits));
    uint64_t carry = 0;
    for (int k = 0; k < size(); ++k) {
      const int offset = k - first;
      const uint64_t part = offset < 0 ? 0 : offset == 0 ? part0 : offset == 1 ? part1 : offset == 2 ? part2 : sign;
      const uint64_t partial = word[k] + part;
      const uint64_t sum = partial + carry;
      carry = (partial < part ? 1 : 0) | (sum < partial ? 1 : 0);
      word[k] = sum;
    }
  }

  __device__ bool is_zero() const {
    uint64_t any = 0;
    for (int k = 0; k < size(); ++k) any |= word[k];
    return any == 0;
  }

  // value * 2^exponent / count rounded once, for a value that is not 0. Leaves the magnitude behind.
  template <class T>
  __device__ T round(int exponent, int64_t count) {
    const bool negative = static_cast<int64_t>(word[size() - 1]) < 0;
    uint64_t carry = negative ? 1 : 0;
    const uint64_t flip = negative ? ~uint64_t{0} : 0;
    for (int k = 0; k < size(); ++k) {
      word[k] = (word[k] ^ flip) + carry;
      carry = carry != 0 && word[k] == 0 ? 1 : 0;
    }
    // The three leading words; of what lies below them only whether it is zero matters.
    uint64_t a = 0;
    uint64_t b = 0;
    uint64_t c = 0;
    int top = 0;
    bool sticky = false;
    for (int k = size() - 1; k >= 0; --k) {
      const uint64_t w = word[k];
      if (a == 0) {
        a = w;
        top = k;
      } else if (k == top - 1) {
        b = w;
      } else if (k == top - 2) {
        c = w;
      } else {
        sticky = sticky || w != 0;
      }
    }
    const int shift = leading_zeros(a);
    uint64_t high = (a << shift) | ((b >> 1) >> (63 - shift));
    uint64_t low = (b << shift) | ((c >> 1) >> (63 - shift));
    sticky = sticky || (c << shift) != 0;
    // 128 leading bits over less than 2^63 leave 65 or more.
    if (count != 1 && divide_wide(static_cast<uint64_t>(count), &high, &low)) sticky = true;
    return round_scaled_wide<T>(negative, high, low, exponent + 64 * top - 64 - shift, sticky);
  }
};

__device__ inline int bit_length(Fixed128 value) {
  const Fixed128 size = value.is_negative() ? value.negated() : value;
  return size.high != 0 ? 128 - leading_zeros(static_cast<uint64_t>(size.high))
                        : size.low != 0 ? 64 - leading_zeros(size.low) : 0;
}

// The terms of one output, visited as (multiple, exponent) pairs.
//
// Sums describes what was collected:
//   int limbs(int64_t f), int unit(int64_t f, int j), int64_t limb(int64_t f, int j)   output f holds the sum of all
//                              limb j * 2^unit(j)
//   int64_t error(int64_t f)   the exact sum is within this many units of the last limb, exclusive; 0: exact
//   uint32_t classes(int64_t f), kComplete   the classes seen; without kComplete, finite nonzero ones may be missing
//   kTwoLimbs   always two limbs, less than 64 bits apart
template <class T, class Sums>
struct Terms {
  const Sums& sums;
  const OutputRule<T>& rule;
  int64_t output;

  // The second factor of a complex product: re takes -imag * im, im takes imag * re.
  __device__ double partner_factor() const { return (output & 1) == 0 ? -rule.imag : rule.imag; }

  // Calls visit(component output, factor).
  template <class Visit>
  __device__ void components(Visit&& visit) const {
    visit(output, rule.real);
    if (rule.pairs) visit(output ^ 1, partner_factor());
  }

  template <class Visit>
  __device__ void for_each(Visit&& visit) const {
    components([&](int64_t f, double factor_value) {
      const Factor factor = Factor::from(factor_value);
      if (factor.significand == 0) return;
      for (int j = 0; j < sums.limbs(f); ++j) {
        const int64_t limb = sums.limb(f, j);
        if (limb != 0) visit(factor.times(limb), sums.unit(f, j) + factor.exponent);
      }
    });
    if (rule.self != nullptr && magnitude_of(rule.self[output]) != 0) {
      const Significand parts = split_magnitude<T>(magnitude_of(rule.self[output]));
      const Fixed128 size = {0, parts.value};
      visit(is_negative_value(rule.self[output]) ? size.negated() : size, parts.position + FloatFormat<T>::kUnitExponent);
    }
  }

  template <class Visit>
  __device__ void for_each_error(Visit&& visit) const {
    components([&](int64_t f, double factor_value) {
      Factor factor = Factor::from(factor_value);
      factor.negative = false;
      const int64_t error = sums.error(f);
      if (error != 0 && factor.significand != 0) visit(factor.times(error), sums.unit(f, sums.limbs(f) - 1) + factor.exponent);
    });
  }
};

enum class Outcome { kRounded, kZero, kUndecided };

// All terms in one integer. With errors, both ends of what is possible must round to the same bits.
template <int kWords, class T, class Sums>
__device__ Outcome round_terms(const Terms<T, Sums>& terms, int lowest, int bits, bool has_error, int64_t count, T* result) {
  for (int end = has_error ? -1 : 0; end <= 1; end += 2) {
    WideInteger<kWords> value(bits);
    terms.for_each([&](Fixed128 term, int exponent) { value.add(term, exponent - lowest); });
    if (has_error) {
      terms.for_each_error(
          [&](Fixed128 term, int exponent) { value.add(end < 0 ? term.negated() : term, exponent - lowest); });
    }
    // An end that is exactly zero stands for +0: a sum that is not known exactly is no sum of -0 alone.
    const bool is_zero = value.is_zero();
    if (is_zero && !has_error) return Outcome::kZero;
    const T rounded = is_zero ? zero<T>(false) : value.template round<T>(lowest, count);
    if (end == 1 && bits_of(rounded) != bits_of(*result)) return Outcome::kUndecided;
    *result = rounded;
  }
  return Outcome::kRounded;
}

template <class T, class Sums>
__attribute__((noinline)) __device__ Outcome round_wide_spread(const Terms<T, Sums>& terms, int lowest, int bits,
                                                               bool has_error, int64_t count, T* result) {
  return round_terms<kSufficientWords<T>>(terms, lowest, bits, has_error, count, result);
}

template <class T, class Sums>
__device__ Outcome round_terms(const Terms<T, Sums>& terms, bool has_error, int64_t count, T* result) {
  int lowest = 1 << 20;
  int top = -(1 << 20);
  const auto widen = [&](Fixed128 term, int exponent) {
    const int end = exponent + bit_length(term);
    lowest = exponent < lowest ? exponent : lowest;
    top = end > top ? end : top;
  };
  terms.for_each(widen);
  terms.for_each_error(widen);
  if (top < lowest) return Outcome::kZero;
  const int bits = top - lowest + 11;  // fewer than 2^10 terms, and the sign
  if (bits <= 64 * kUsualWords) return round_terms<kUsualWords>(terms, lowest, bits, has_error, count, result);
  return round_wide_spread(terms, lowest, bits, has_error, count, result);
}

// A plain sum in two limbs and a self that fits beside them: 128 bits are enough.
template <class T, class Sums>
__device__ Outcome round_two_limbs(const Sums& sums, const OutputRule<T>& rule, int64_t f, T* result) {
  if constexpr (!Sums::kTwoLimbs) {
    return Outcome::kUndecided;
  } else {
    const int unit = sums.unit(f, 1);
    Fixed128 value = Fixed128::from_integer(sums.limb(f, 0)).shifted_left(sums.unit(f, 0) - unit);
    value = value.plus(Fixed128::from_integer(sums.limb(f, 1)));
    if (rule.self != nullptr && !value.add_exactly(to_double(rule.self[f]), unit)) return Outcome::kUndecided;
    const int64_t error = sums.error(f);
    if (error == 0 && value.is_zero()) return Outcome::kZero;
    return certify_fixed<T>(value, unit, error, error, false, result) ? Outcome::kRounded : Outcome::kUndecided;
  }
}

// Output f, or false if the evidence does not settle it. Divides by `count`.
template <class T, class Sums>
__device__ bool compose(const Sums& sums, const OutputRule<T>& rule, int64_t f, int64_t count, T* result) {
  const Terms<T, Sums> terms{sums, rule, f};
  uint32_t seen = 0;      // by this output's sum
  uint32_t products = 0;  // classes of what is summed: contributions times their factors
  bool has_error = false;
  terms.components([&](int64_t component, double factor) {
    const uint32_t classes = sums.classes(component);
    const bool inexact = sums.error(component) != 0;
    has_error = has_error || inexact;
    seen |= classes | (inexact ? kPositive : 0);
    products |= rule.scaled ? classes_of_products(classes, factor) : classes;
  });
  const bool has_self = rule.self != nullptr;
  if (seen == 0 && rule.counts != nullptr) {
    products = kPositive | kNegative;  // there are some, so that they cancelled
  } else if (seen == 0) {
    *result = has_self ? rule.self[f] : zero<T>(false);
    // Nothing was seen, but terms may have cancelled: that would turn -0 into +0, and any NaN into the canonical one.
    const bool same_either_way = !has_self || (bits_of(*result) != FloatFormat<T>::kSign &&
                                               (magnitude_of(*result) <= FloatFormat<T>::kInfinity ||
                                                bits_of(*result) == FloatFormat<T>::kQuietNaN));
    return Sums::kComplete || same_either_way;
  }
  const uint32_t all = products | (has_self ? class_of(rule.self[f]) : 0);
  constexpr uint32_t kInfinities = kPositiveInfinity | kNegativeInfinity;
  if ((all & kNotANumber) != 0 || (all & kInfinities) == kInfinities) {
    *result = canonical_nan<T>();
    return true;
  }
  if ((all & kInfinities) != 0) {
    *result = infinity<T>((all & kNegativeInfinity) != 0);
    return true;
  }
  Outcome outcome = Outcome::kUndecided;
  if (!rule.scaled && count == 1) outcome = round_two_limbs(sums, rule, f, result);
  if (outcome == Outcome::kUndecided) outcome = round_terms(terms, has_error, count, result);
  if (outcome == Outcome::kZero) {
    *result = zero<T>(all == kNegativeZero);
    // Terms that cancelled, or left no trace, may be there without being seen.
    return Sums::kComplete || (all & ~kNegativeZero) != 0;
  }
  return outcome == Outcome::kRounded;
}

// The outputs first .. first + cell - 1, which share their contributions; false if any is not settled.
template <class T, class Sums, class Keys>
__device__ bool compose_cell(const Sums& sums, const OutputRule<T>& rule, const Keys& keys, int64_t first, int cell,
                             T* results) {
  bool settled = true;
  for (int c = 0; c < cell; ++c) {
    const int64_t f = first + c;
    int64_t count = 1;
    if (rule.counts != nullptr) {
      const int64_t contributions = static_cast<int64_t>(rule.counts[keys.target_of(f)]);
      if (contributions == 0) {
        results[c] = rule.kept != nullptr ? rule.kept[f] : zero<T>(false);
        continue;
      }
      if (rule.divides) count = contributions + (rule.self != nullptr ? 1 : 0);
    }
    settled = compose(sums, rule, f, count, &results[c]) && settled;
  }
  return settled;
}

}  // namespace reprocuda
