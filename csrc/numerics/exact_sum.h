// The exact fallback: a superaccumulator. Contributions are added as integers into 32-bit digits held in int64 limbs, so the
// sum is exact, order-free, and splits and merges by plain integer addition of limbs and OR of flags (atomics included).
//
// Head-room. One contribution changes each limb at most once, by less than 2^32. Right after normalize every limb but the top
// is in [0, 2^32), so 2^31 - 2 contributions fit before the next normalize; the rule for callers is 2^30 at the latest, which
// lets two accumulators that both kept it be merged. Adding a normalised accumulator counts as one contribution. The top limb
// is never split; it holds the sums of this many contributions of the largest size:
//   Fp32Terms 2^51, Fp32Products 2^38, Fp64Terms 2^45, Fp64Products 2^59.
//
// Integer arithmetic only: independent of rounding mode, FTZ and DAZ.
#pragma once

#include "fixed_point.h"

namespace reprocuda {

// The flags word. With kSawNonNegZero unset, an exact zero is -0: either nothing was added, or only -0.
inline constexpr uint32_t kSawNaN = 1;
inline constexpr uint32_t kSawPosInf = 2;
inline constexpr uint32_t kSawNegInf = 4;
inline constexpr uint32_t kSawNonNegZero = 8;

// A format says where bit 0 of limb 0 lies, and how many leading bits of a double's significand can be nonzero. Fewer bits
// mean fewer limbs touched. Adding a double with more bits, or outside the format's range, is an error that is not detected.
struct Fp32Terms {  // fp32, bf16 and fp16 values
  static constexpr int kLimbs = 10;
  static constexpr int kLowestExponent = -149 - 23;
  static constexpr int kSignificandBits = 24;
};

struct Fp32Products {  // products of two fp32, bf16 or fp16 values; also such values themselves
  static constexpr int kLimbs = 19;
  static constexpr int kLowestExponent = -298 - 47;
  static constexpr int kSignificandBits = 48;
};

struct Fp64Terms {
  static constexpr int kLimbs = 66;
  static constexpr int kLowestExponent = -1074;
  static constexpr int kSignificandBits = 53;
};

struct Fp64Products {  // products of two doubles; also doubles themselves
  static constexpr int kLimbs = 132;
  static constexpr int kLowestExponent = -2148;
  static constexpr int kSignificandBits = 106;
};

namespace detail {

REPROCUDA_HD uint32_t special_flag(double x) {
  return is_nan(x) ? kSawNaN : is_negative(x) ? kSawNegInf : kSawPosInf;
}

// Calls emit(limb, amount) for the 32-bit digits of +-(high * 2^64 + low) * 2^position, kDigits of them.
template <int kDigits, class Emit>
REPROCUDA_HD void emit_digits(uint64_t high, uint64_t low, int position, bool negative, Emit&& emit) {
  const int limb = position >> 5;
  const int shift = position & 31;
  const uint64_t word0 = low << shift;
  const uint64_t word1 = (high << shift) | ((low >> 1) >> (63 - shift));
  const int64_t sign = negative ? -1 : 0;
  const auto put = [&](int offset, uint64_t digit) {
    emit(limb + offset, (static_cast<int64_t>(digit) ^ sign) - sign);
  };
  put(0, word0 & 0xffffffffu);
  put(1, word0 >> 32);
  if constexpr (kDigits > 2) put(2, word1 & 0xffffffffu);
  if constexpr (kDigits > 3) put(3, word1 >> 32);
  if constexpr (kDigits > 4) put(4, (high >> 1) >> (63 - shift));
}

}  // namespace detail

// Splits w * x, exactly, into emit(limb, amount) calls, and returns the flags it raises.
template <class Emit>
REPROCUDA_HD uint32_t split_product(double w, double x, Emit&& emit) {
  const bool negative = is_negative(w) != is_negative(x);
  if (!is_finite(w) || !is_finite(x)) {
    const bool invalid = is_nan(w) || is_nan(x) || is_zero(w) || is_zero(x);
    return kSawNonNegZero | (invalid ? kSawNaN : negative ? kSawNegInf : kSawPosInf);
  }
  if (is_zero(w) || is_zero(x)) return negative ? 0 : kSawNonNegZero;
  const Decoded a = decode(w);
  const Decoded b = decode(x);
  uint64_t high = 0;
  uint64_t low = 0;
  multiply_wide(a.significand, b.significand, &high, &low);
  const int position = a.exponent + b.exponent - Fp64Products::kLowestExponent;
  detail::emit_digits<5>(high, low, position, negative, static_cast<Emit&&>(emit));
  return kSawNonNegZero;
}

// Splits x into emit(limb, amount) calls and returns the flags it raises. The building block for accumulators that live
// elsewhere, such as limbs shared by a block and added to by integer atomics.
template <class Format, class Emit>
REPROCUDA_HD uint32_t split_term(double x, Emit&& emit) {
  constexpr int kBits = Format::kSignificandBits;
  if constexpr (kBits > 53) {
    return split_product(1.0, x, static_cast<Emit&&>(emit));
  } else {
    const uint64_t bits = bits_of(x);
    int field = static_cast<int>((bits >> 52) & 0x7ff);
    uint64_t significand = (bits & kFractionMask) | (kFractionMask + 1);
    if (static_cast<unsigned>(field - 1) >= 0x7feu) {
      if (field != 0) return kSawNonNegZero | detail::special_flag(x);
      if (is_zero(x)) return is_negative(x) ? 0 : kSawNonNegZero;
      significand = bits & kFractionMask;
      field = 1;
    }
    const int position = field - 1 + FloatFormat<double>::kUnitExponent + (53 - kBits) - Format::kLowestExponent;
    detail::emit_digits<(kBits + 31 + 31) / 32>(0, significand >> (53 - kBits), position, is_negative(x),
                                               static_cast<Emit&&>(emit));
    return kSawNonNegZero;
  }
}

// A view of one accumulator: limb k is limbs[k * stride], so that neighbouring outputs can share a pool. For output f of a
// pool with F outputs: limbs = pool + f, stride = F.
template <class Format>
struct ExactSum {
  static constexpr int kLimbs = Format::kLimbs;

  int64_t* limbs;
  int64_t stride;
  uint32_t* flags;

  REPROCUDA_HD void clear() const {
    REPROCUDA_ROLLED
    for (int k = 0; k < kLimbs; ++k) limbs[k * stride] = 0;
    *flags = 0;
  }

  REPROCUDA_HD void add(double x) const {
    *flags |= split_term<Format>(x, [this](int limb, int64_t amount) { limbs[limb * stride] += amount; });
  }

  // Fp32Products takes doubles that hold fp32 values, whose product fp64 holds exactly; Fp64Products takes any.
  REPROCUDA_HD void add_product(double w, double x) const {
    static_assert(Format::kSignificandBits == 48 || Format::kSignificandBits == 106, "a format of products");
    if constexpr (Format::kSignificandBits == 48) {
      add(w * x);
    } else {
      *flags |= split_product(w, x, [this](int limb, int64_t amount) { limbs[limb * stride] += amount; });
    }
  }

  // Adds value * 2^exponent, with exponent >= Format::kLowestExponent and |value| * 2^exponent within the format's range.
  // Raises no flag: who adds sums that were collected elsewhere brings their flags along.
  REPROCUDA_HD void add_fixed(Fixed128 value, int exponent) const {
    const bool negative = value.is_negative();
    const Fixed128 size = negative ? value.negated() : value;
    const int position = exponent - Format::kLowestExponent;
    // Near the top of the format the highest digits are zero and their limbs do not exist.
    detail::emit_digits<5>(static_cast<uint64_t>(size.high), size.low, position, negative,
                           [this](int limb, int64_t amount) {
                             if (amount != 0) limbs[limb * stride] += amount;
                           });
  }

  // Carries upwards until every limb but the top is in [0, 2^32).
  REPROCUDA_HD void normalize() const {
    int64_t carry = 0;
    REPROCUDA_ROLLED
    for (int k = 0; k + 1 < kLimbs; ++k) {
      const int64_t limb = limbs[k * stride] + carry;
      limbs[k * stride] = limb & 0xffffffff;
      carry = limb >> 32;
    }
    limbs[(kLimbs - 1) * stride] += carry;
  }

  template <class Other>
  REPROCUDA_HD void merge(const Other& other) const {
    static_assert(Other::kLimbs == kLimbs, "the same format");
    REPROCUDA_ROLLED
    for (int k = 0; k < kLimbs; ++k) limbs[k * stride] += other.limbs[k * other.stride];
    *flags |= *other.flags;
  }

  // The exact sum rounded once. Leaves the accumulator normalised, with the same value.
  template <class T>
  REPROCUDA_HD T round() const {
    return round_mean<T>(1);
  }

  // The exact sum over the exact count, rounded once; count >= 1.
  template <class T>
  REPROCUDA_HD T round_mean(int64_t count) const {
    const uint32_t saw = *flags;
    if ((saw & kSawNaN) || (saw & (kSawPosInf | kSawNegInf)) == (kSawPosInf | kSawNegInf)) return canonical_nan<T>();
    if (saw & (kSawPosInf | kSawNegInf)) return infinity<T>((saw & kSawNegInf) != 0);
    normalize();
    const bool negative = limbs[(kLimbs - 1) * stride] < 0;
    int lowest = 0;  // the lowest limb that is not zero
    REPROCUDA_ROLLED
    while (lowest < kLimbs && limbs[lowest * stride] == 0) ++lowest;
    if (lowest == kLimbs) return zero<T>((saw & kSawNonNegZero) == 0);
    return round_magnitude<T>(negative, lowest, count);
  }

 private:
  // Digit k of the magnitude: a two's-complement negation starts at the lowest limb that is not zero.
  REPROCUDA_HD uint64_t digit(int k, bool negative, int lowest) const {
    if (k < lowest) return 0;
    const uint64_t limb = static_cast<uint64_t>(limbs[k * stride]);
    if (!negative) return limb;
    const uint64_t flipped = k == lowest ? ~limb + 1 : ~limb;
    return k + 1 == kLimbs ? flipped : flipped & 0xffffffffu;
  }

  template <class T>
  REPROCUDA_HD T round_magnitude(bool negative, int lowest, int64_t count) const {
    int top = kLimbs - 1;
    REPROCUDA_ROLLED
    while (digit(top, negative, lowest) == 0) --top;
    const auto pair = [&](int k) { return (digit(k, negative, lowest) << 32) | digit(k - 1, negative, lowest); };
    const uint64_t leading = digit(top, negative, lowest);
    const uint64_t middle = pair(top - 1);
    const uint64_t last = pair(top - 3);
    const int shift = leading_zeros(leading);
    const auto join = [shift](uint64_t a, uint64_t b) { return (a << shift) | ((b >> 1) >> (63 - shift)); };
    // The magnitude is (high * 2^64 + low + a fraction if `sticky`) * 2^exponent, with bit 127 set.
    uint64_t high = join(leading, middle);
    uint64_t low = join(middle, last);
    const bool sticky = (last << shift) != 0 || lowest < top - 4;
    const int exponent = Format::kLowestExponent + 32 * top - 64 - shift;
    bool remainder = false;
    if (count != 1) remainder = divide_wide(static_cast<uint64_t>(count), &high, &low);
    // 128 leading bits over less than 2^63 leave 65 or more.
    return round_scaled_wide<T>(negative, high, low, exponent, sticky || remainder);
  }
};

// An accumulator that owns its limbs: for a thread's own use, or one lane of a warp.
template <class Format>
struct ExactAccumulator {
  int64_t storage[Format::kLimbs];
  uint32_t flag_word;

  REPROCUDA_HD ExactSum<Format> view() { return {storage, 1, &flag_word}; }
};

}  // namespace reprocuda
