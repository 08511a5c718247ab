// Floating-point numbers as integers: layouts, bit casts, and the few integer primitives that C++20 does not offer on a
// device. Nothing here depends on a floating-point mode.
#pragma once

#include "half.h"

namespace reprocuda {

template <class T>
struct FloatLayout;

template <>
struct FloatLayout<Half> {
  using Bits = uint16_t;
  static constexpr int kFractionBits = 10;
  static constexpr int kExponentBits = 5;
};

template <>
struct FloatLayout<BFloat16> {
  using Bits = uint16_t;
  static constexpr int kFractionBits = 7;
  static constexpr int kExponentBits = 8;
};

template <>
struct FloatLayout<float> {
  using Bits = uint32_t;
  static constexpr int kFractionBits = 23;
  static constexpr int kExponentBits = 8;
};

template <>
struct FloatLayout<double> {
  using Bits = uint64_t;
  static constexpr int kFractionBits = 52;
  static constexpr int kExponentBits = 11;
};

// What follows from a layout. `kUnitExponent` is the exponent of the last bit of a subnormal: every finite number of the
// format is an integer times 2^kUnitExponent.
template <class T>
struct FloatFormat : FloatLayout<T> {
  using Bits = typename FloatLayout<T>::Bits;
  using FloatLayout<T>::kFractionBits;
  using FloatLayout<T>::kExponentBits;
  static constexpr int kPrecision = kFractionBits + 1;
  static constexpr int kBias = (1 << (kExponentBits - 1)) - 1;
  static constexpr int kMaxExponent = kBias;
  static constexpr int kUnitExponent = 1 - kBias - kFractionBits;
  static constexpr uint64_t kExponentMask = (uint64_t{1} << kExponentBits) - 1;
  static constexpr uint64_t kSign = uint64_t{1} << (kFractionBits + kExponentBits);
  static constexpr uint64_t kInfinity = kExponentMask << kFractionBits;
  static constexpr uint64_t kQuietNaN = kInfinity | (uint64_t{1} << (kFractionBits - 1));
};

inline constexpr uint64_t kSignBit = FloatFormat<double>::kSign;
inline constexpr uint64_t kInfinityBits = FloatFormat<double>::kInfinity;
inline constexpr uint64_t kFractionMask = (uint64_t{1} << 52) - 1;

REPROCUDA_HD uint64_t bits_of(double value) { return __builtin_bit_cast(uint64_t, value); }
REPROCUDA_HD uint32_t bits_of(float value) { return __builtin_bit_cast(uint32_t, value); }
REPROCUDA_HD uint16_t bits_of(Half value) { return value.bits; }
REPROCUDA_HD uint16_t bits_of(BFloat16 value) { return value.bits; }

template <class T>
REPROCUDA_HD T from_bits(uint64_t bits) {
  return __builtin_bit_cast(T, static_cast<typename FloatFormat<T>::Bits>(bits));
}

template <class T>
REPROCUDA_HD T canonical_nan() {
  return from_bits<T>(FloatFormat<T>::kQuietNaN);
}

template <class T>
REPROCUDA_HD T infinity(bool negative) {
  return from_bits<T>(FloatFormat<T>::kInfinity | (negative ? FloatFormat<T>::kSign : 0));
}

template <class T>
REPROCUDA_HD T zero(bool negative) {
  return from_bits<T>(negative ? FloatFormat<T>::kSign : 0);
}

REPROCUDA_HD uint64_t magnitude_bits(double value) { return bits_of(value) & ~kSignBit; }
REPROCUDA_HD bool is_negative(double value) { return (bits_of(value) & kSignBit) != 0; }
REPROCUDA_HD bool is_zero(double value) { return magnitude_bits(value) == 0; }
REPROCUDA_HD bool is_finite(double value) { return magnitude_bits(value) < kInfinityBits; }
REPROCUDA_HD bool is_nan(double value) { return magnitude_bits(value) > kInfinityBits; }

// `value` must not be 0.
REPROCUDA_HD int leading_zeros(uint64_t value) {
#ifdef __CUDA_ARCH__
  return __clzll(static_cast<long long>(value));
#else
  return __builtin_clzll(value);
#endif
}

REPROCUDA_HD void multiply_wide(uint64_t a, uint64_t b, uint64_t* high, uint64_t* low) {
#ifdef __CUDA_ARCH__
  *high = __umul64hi(a, b);
  *low = a * b;
#else
  __extension__ typedef unsigned __int128 Wide;
  const Wide product = static_cast<Wide>(a) * b;
  *high = static_cast<uint64_t>(product >> 64);
  *low = static_cast<uint64_t>(product);
#endif
}

// |value| = significand * 2^exponent for a finite value.
struct Decoded {
  uint64_t significand;
  int exponent;
};

REPROCUDA_HD Decoded decode(double value) {
  const int field = static_cast<int>(magnitude_bits(value) >> 52);
  const uint64_t fraction = bits_of(value) & kFractionMask;
  return field == 0 ? Decoded{fraction, FloatFormat<double>::kUnitExponent}
                    : Decoded{fraction | (kFractionMask + 1), field - 1 + FloatFormat<double>::kUnitExponent};
}

}  // namespace reprocuda
