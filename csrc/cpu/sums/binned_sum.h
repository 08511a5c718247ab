// The exact sum of 16- and 32-bit floats with one integer addition a term: a superaccumulator whose digits overlap.
//
// A term is its 24-bit significand, shifted by the low four bits of its exponent, in the bin that the other bits name; bins
// are 16 bits apart and 64 bits wide. Guarantee: exact for every input, as numerics/exact_sum.h, whose flags it uses and to
// which it turns for means and for sums spread over many bins. Head-room: a term is below 2^39, so 2^23 terms fit before
// normalize(). Integer arithmetic only. Cost: about 1 ns a term, half of ExactSum.
#pragma once

#include <cstdint>

#include "../../numerics/exact_sum.h"

namespace reprocuda::cpu {

// Named beside the formats of numerics/exact_sum.h.
struct BinnedTerms {
  static constexpr int kLimbs = 16 + 3;  // three for carries out of the top
};

// A view: bin k is bins[k * stride].
struct BinnedSum {
  static constexpr int kBins = BinnedTerms::kLimbs;
  static constexpr int kBinBits = 16;
  static constexpr int kUnitExponent = -150;  // of bin 0

  int64_t* bins;
  int64_t stride;
  uint32_t* flags;

  void add(float x) const {
    const uint32_t bits = bits_of(x);
    const uint32_t field = (bits >> 23) & 0xff;
    if (field == 0xff) {
      *flags |= kSawNonNegZero | detail::special_flag(static_cast<double>(x));
      return;
    }
    const uint32_t subnormal = field == 0;
    const int64_t significand = (bits & 0x7fffff) | ((1 - subnormal) << 23);
    const uint32_t exponent = field + subnormal;
    const int64_t sign = -static_cast<int64_t>(bits >> 31);
    bins[(exponent >> 4) * stride] += ((significand << (exponent & 15)) ^ sign) - sign;
    *flags |= bits == 0x80000000u ? 0 : kSawNonNegZero;
  }

  void normalize() const {
    int64_t carry = 0;
    for (int k = 0; k + 1 < kBins; ++k) {
      const int64_t bin = bins[k * stride] + carry;
      bins[k * stride] = bin & 0xffff;
      carry = bin >> kBinBits;
    }
    bins[(kBins - 1) * stride] += carry;
  }

  void merge(const BinnedSum& other) const {
    for (int k = 0; k < kBins; ++k) bins[k * stride] += other.bins[k * other.stride];
    *flags |= *other.flags;
  }

  // The exact sum over the exact count, rounded once; count >= 1.
  template <class T>
  T round_mean(int64_t count) const {
    return round_between<T>(count, 0, kBins - 1);
  }

  // The same where no bin outside [low, high] is in use.
  template <class T>
  T round_between(int64_t count, int low, int high) const {
    constexpr uint32_t kSpecial = kSawNaN | kSawPosInf | kSawNegInf;
    while (low <= high && bins[low * stride] == 0) ++low;
    while (high > low && bins[high * stride] == 0) --high;
    if (count != 1 || (*flags & kSpecial) != 0 || low > high || high - low > 3) return round_in_limbs<T>(count);
    __extension__ using Wide = unsigned __int128;
    Wide sum = 0;
    for (int k = high; k >= low; --k) sum = (sum << kBinBits) + static_cast<Wide>(static_cast<__int128>(bins[k * stride]));
    const Fixed128 value{static_cast<int64_t>(sum >> 64), static_cast<uint64_t>(sum)};
    const int exponent = kUnitExponent + kBinBits * low;
    const int64_t narrow = static_cast<int64_t>(value.low);
    if (value.high != narrow >> 63 || narrow == INT64_MIN) return round_fixed<T>(value, exponent, false, false);
    return round_narrow<T>(narrow, exponent);
  }

 private:
  // A double holds it, or 53 leading bits of it with the last one set where anything was cut off: enough to round to T.
  template <class T>
  static T round_narrow(int64_t value, int exponent) {
    constexpr int kCut = 11;
    uint64_t size = value < 0 ? 0 - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
    if ((size >> 53) != 0) {
      size = (size >> kCut) | ((size & ((uint64_t{1} << kCut) - 1)) != 0 ? 1 : 0);
      exponent += kCut;
    }
    const double power = from_bits<double>(static_cast<uint64_t>(1023 + exponent) << 52);
    const double scaled = static_cast<double>(static_cast<int64_t>(size)) * power;  // exact in every rounding mode
    return round_to<T>(value < 0 ? -scaled : scaled);
  }

  template <class T>
  T round_in_limbs(int64_t count) const {
    ExactAccumulator<Fp32Terms> limbs;
    const ExactSum<Fp32Terms> sum = limbs.view();
    sum.clear();
    for (int k = 0; k < kBins; ++k) {
      if (bins[k * stride] != 0) sum.add_fixed(Fixed128::from_integer(bins[k * stride]), kUnitExponent + kBinBits * k);
    }
    limbs.flag_word = *flags;
    return sum.round_mean<T>(count);
  }
};

}  // namespace reprocuda::cpu
