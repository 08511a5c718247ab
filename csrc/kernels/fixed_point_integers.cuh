// Integers and bools by atomics: their sums wrap around, or are OR, so any order gives the same bits.
//
// What: accumulate adds every contribution to a cleared array of 32- or 64-bit words; finish adds self, multiplies by alpha
// or divides by the count (rounding towards -infinity, as torch does) and narrows. Guarantee: exact modulo 2^n, for any
// schedule; nothing is written before every index is checked.
// Cost: 1 atomic a contribution, 4 or 8 bytes an output, 3 graph nodes with the clearing.
#pragma once

#include "element.cuh"
#include "fixed_point_digits.cuh"
#include "keys.cuh"

namespace reprocuda {

inline constexpr int kIntegerThreads = 256;

// The word that is wide enough and has native atomics.
template <class T>
using IntegerWord = std::conditional_t<(sizeof(T) > 4), unsigned long long, unsigned>;

struct IntegerRule {
  bool is_signed = false;
  uint64_t alpha = 1;
  const unsigned long long* counts = nullptr;  // [num_targets]: contributions; nullptr: not counted, and self is kept
  bool divides = false;                        // by the counts, and self's
};

template <class T, class Keys>
__global__ void __launch_bounds__(kIntegerThreads)
    integer_accumulate(const __grid_constant__ Keys keys, const T* src, IntegerWord<T>* words, unsigned long long* counts) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const Place place = keys.locate(e);
    if (place.output < 0) continue;
    if constexpr (std::is_same_v<T, Boolean>) {
      if (src[place.source].bits != 0 && peek(&words[place.output]) == 0) atomicOr(&words[place.output], 1u);
    } else {
      atomicAdd(&words[place.output], static_cast<IntegerWord<T>>(src[place.source]));
    }
    if (counts != nullptr && place.target >= 0) atomicAdd(&counts[place.target], 1ull);
  }
}

// Towards -infinity; count > 0.
template <class T>
__device__ T divide_down(T sum, int64_t count, bool is_signed) {
  if (!is_signed) return static_cast<T>(static_cast<uint64_t>(sum) / static_cast<uint64_t>(count));
  const int64_t value = static_cast<int64_t>(static_cast<std::make_signed_t<T>>(sum));
  const int64_t quotient = value / count;
  return static_cast<T>(quotient - (value % count < 0 ? 1 : 0));
}

template <class T, class Keys>
__global__ void __launch_bounds__(kIntegerThreads)
    integer_finish(const __grid_constant__ Keys keys, const IntegerWord<T>* words,
                   const T* self,  // one more contribution, or nullptr
                   const T* kept,  // what an output without contributions keeps, or nullptr
                   T* out, IntegerRule rule) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t f = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; f < keys.num_outputs; f += step) {
    const int64_t count = rule.counts == nullptr ? 1 : static_cast<int64_t>(rule.counts[keys.target_of(f)]);
    if (count == 0) {
      out[f] = kept != nullptr ? kept[f] : T{0};
      continue;
    }
    if constexpr (std::is_same_v<T, Boolean>) {
      const bool own = self != nullptr && self[f].bits != 0;
      // Where nothing true arrives the byte of self stays as it is.
      const bool any = words[f] != 0 && rule.alpha != 0;
      out[f] = any || !own ? Boolean{static_cast<uint8_t>(any)} : self[f];
    } else {
      T sum = static_cast<T>(static_cast<uint64_t>(words[f]) * rule.alpha + (self != nullptr ? self[f] : T{0}));
      if (rule.divides) sum = divide_down(sum, count + (self != nullptr ? 1 : 0), rule.is_signed);
      out[f] = sum;
    }
  }
}

}  // namespace reprocuda
