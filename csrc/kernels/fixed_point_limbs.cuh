// One output's sum as a 128-bit integer in two 64-bit words that integer atomics add to, with its status in the lowest bits.
//
// What: the high word counts units of 2^top_unit, the low word fractions of one: its upper 46 bits are the sum's, the 18
// below them tell what the sum does not. All terms are multiples of 2^18, so no addition changes the status:
//   bits 0 .. 6    classes of zero, infinite and NaN contributions
//   bit 7          more contributions were cut off than can be counted
//   bits 8 .. 17   how many were cut off, modulo 2^10
// Guarantee: the two words hold the terms' sum exactly, in any order: the addition to the low word that wraps around sees
// so from what was there before, and carries into the high word. Likewise the one that wraps the count around raises bit 7;
// the carry adds a unit of 2^18, less than one for every cut-off, which error_of() accounts for.
// Why the high word cannot overflow: see Placement. It stays in [-2^62, 2^62), so a word with unlike upper bits can say that
// an output waits for the exact collection, and in which slot.
// Cost: one atomic where a term's low part is zero, else two, of which the second waits for the first. 16 bytes an output.
#pragma once

#include "../numerics/fixed_point.h"
#include "fixed_point_digits.cuh"

namespace reprocuda {

struct alignas(16) TwoLimbs {
  unsigned long long high;
  unsigned long long low;
};

inline constexpr int kStatusBits = 18;
inline constexpr int kLowBits = 64 - kStatusBits;  // of the sum, in the low word
inline constexpr unsigned kManyCutOff = 128;
inline constexpr int kCutOffShift = 8;
inline constexpr unsigned long long kOneCutOff = 1ull << kCutOffShift;
inline constexpr unsigned kCutOffMask = (1u << (kStatusBits - kCutOffShift)) - 1;

// A term on its way into a sum.
struct Addition {
  uint64_t high = 0;
  uint64_t low = 0;               // and one cut-off to be counted
  unsigned long long before = 0;  // the low word when `low` was added
};

// Several additions can be begun before the first is completed: their atomics are in flight together.
template <class T>
__device__ __forceinline__ Addition begin_addition(T x, TwoLimbs* sum, Placement placement) {
  const uint64_t magnitude = magnitude_of(x);
  if (magnitude - 1 >= FloatFormat<T>::kInfinity - 1) {  // zero, infinite or NaN
    raise_flags(&sum->low, class_of(x));
    return {};
  }
  const Significand parts = split_magnitude<T>(magnitude);
  const int shift = parts.position + FloatFormat<T>::kUnitExponent - placement.top_unit + 64;
  bool cut_off = false;
  const Fixed128 term = truncate_scaled(parts.value, shift, is_negative_value(x), kStatusBits, &cut_off);
  Addition addition{static_cast<uint64_t>(term.high), term.low};
  if (cut_off && (peek(&sum->low) & kManyCutOff) == 0) addition.low |= kOneCutOff;
  if (addition.low != 0) addition.before = atomicAdd(&sum->low, static_cast<unsigned long long>(addition.low));
  return addition;
}

__device__ __forceinline__ void complete_addition(const Addition& addition, TwoLimbs* sum) {
  const uint64_t after = addition.before + addition.low;
  const uint64_t high = addition.high + (after < addition.before ? 1 : 0);
  if (high != 0) atomicAdd(&sum->high, static_cast<unsigned long long>(high));
  const bool counted = (addition.low & kOneCutOff) != 0;
  if (counted && ((addition.before >> kCutOffShift) & kCutOffMask) == kCutOffMask) raise_flags(&sum->low, kManyCutOff);
}

__device__ inline bool has_many_cut_off(const TwoLimbs& sum) { return (sum.low & kManyCutOff) != 0; }

// The sum of the contributions is less than this many units of 2^-46 away; 0: it is exact. Every contribution is cut off by
// less than one unit, and of `most` no more than most / 2^10 units came from a count that wrapped around.
__device__ inline int64_t error_of(const TwoLimbs& sum, int64_t most) {
  return has_many_cut_off(sum) ? 2 * most : static_cast<int64_t>((sum.low >> kCutOffShift) & kCutOffMask);
}

// The classes that have certainly been seen. Contributions are cut off towards zero: the sum's sign is that of one of them.
__device__ inline uint32_t classes_of(const TwoLimbs& sum) {
  uint32_t classes = static_cast<uint32_t>(sum.low) & kAllClasses;
  if (has_many_cut_off(sum)) return classes;
  if (static_cast<int64_t>(sum.high) < 0) return classes | kNegative;
  return (sum.high | (sum.low >> kStatusBits)) != 0 ? classes | kPositive : classes;
}

// An output that waits for the exact collection has its slot in the high word and only classes in the low one.
__device__ inline TwoLimbs pending_in(unsigned long long slot) { return {1ull << 63 | slot, 0}; }
__device__ inline bool is_pending(unsigned long long high) { return high >> 62 == 2; }
__device__ inline int64_t slot_of(unsigned long long high) { return static_cast<int64_t>(high & ((1ull << 62) - 1)); }

}  // namespace reprocuda
