// Numbers as signed integers that are ordered as they are: -0 below +0, NaN above all. What is sought is always the largest
// such key; for a minimum every bit of the others is turned over, which turns their order over, too.
#pragma once

#include <limits>
#include <type_traits>

#include "dtype.h"
#include "config.h"

namespace reprocuda {

template <class BitsOfFloat, BitsOfFloat kInfinity, BitsOfFloat kNan>
struct FloatOrder {
  using Bits = BitsOfFloat;
  using Key = std::make_signed_t<Bits>;
  static constexpr Key kTop = std::numeric_limits<Key>::max();
  static constexpr bool kHasLeast = false;  // no number has the least key of all

  static REPROCUDA_HD Key key(Bits bits, bool largest) {
    if (static_cast<Key>(bits & kTop) > static_cast<Key>(kInfinity)) return kTop;
    return static_cast<Key>(ordered(static_cast<Key>(bits)) ^ (largest ? Key{0} : Key{-1}));
  }
  static REPROCUDA_HD Bits bits(Key key, bool largest) {
    if (key == kTop) return kNan;
    return static_cast<Bits>(ordered(static_cast<Key>(key ^ (largest ? Key{0} : Key{-1}))));
  }

 private:
  // its own inverse
  static REPROCUDA_HD Key ordered(Key bits) { return static_cast<Key>(bits ^ ((bits >> (8 * sizeof(Key) - 1)) & kTop)); }
};

using Float16Order = FloatOrder<uint16_t, 0x7c00, 0x7e00>;
using BFloat16Order = FloatOrder<uint16_t, 0x7f80, 0x7fc0>;
using Float32Order = FloatOrder<uint32_t, 0x7f800000, 0x7fc00000>;
using Float64Order = FloatOrder<uint64_t, 0x7ff0000000000000, 0x7ff8000000000000>;

template <class Integer>
struct IntegerOrder {
  using Bits = Integer;
  using Key = std::make_signed_t<Integer>;
  static constexpr bool kHasLeast = true;

  static REPROCUDA_HD Key key(Bits bits, bool largest) { return static_cast<Key>(static_cast<Key>(bits) ^ flip(largest)); }
  static REPROCUDA_HD Bits bits(Key key, bool largest) { return static_cast<Bits>(key ^ flip(largest)); }

 private:
  static REPROCUDA_HD Key flip(bool largest) {
    const Key sign = std::is_signed_v<Integer> ? Key{0} : std::numeric_limits<Key>::min();
    return static_cast<Key>(sign ^ (largest ? Key{0} : Key{-1}));
  }
};

// Calls function(Order{}) with the order of a dtype.
template <class Function>
void with_order(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kBool: return function(IntegerOrder<uint8_t>{});
    case Dtype::kInt8: return function(IntegerOrder<int8_t>{});
    case Dtype::kInt16: return function(IntegerOrder<int16_t>{});
    case Dtype::kInt32: return function(IntegerOrder<int32_t>{});
    case Dtype::kInt64: return function(IntegerOrder<int64_t>{});
    case Dtype::kFloat16: return function(Float16Order{});
    case Dtype::kBFloat16: return function(BFloat16Order{});
    case Dtype::kFloat32: return function(Float32Order{});
    case Dtype::kFloat64: return function(Float64Order{});
  }
}

}  // namespace reprocuda
