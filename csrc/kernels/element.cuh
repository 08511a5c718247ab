// What kernels do with one element: read it, weigh it, add it to a partial sum, and judge whether the sum proves its own
// rounding.
//
// Guarantee: when Sum<T>::round or round_mean returns true, *result is the exact sum (or mean) rounded once; integers and
// bools always succeed. Partial sums merge in any order. A Sum is plain data, so that it can live in shared memory.
#pragma once

#include <type_traits>

#include "../numerics/double_double.h"
#include "../numerics/interval.h"
#include "../problems/accumulation.h"
#include "device.cuh"

namespace reprocuda {

// One byte; anything but 0 is true.
struct Boolean {
  uint8_t bits;
};

template <class T>
inline constexpr bool kIsFloat =
    std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || std::is_same_v<T, float> || std::is_same_v<T, double>;

// The factor on every contribution. With `is_complex`, columns are (real, imaginary) pairs and the factor is complex: each
// output gets two real products, as complex multiplication has them, also when `imag` is zero.
struct Weight {
  bool is_one;
  bool is_complex;
  double real;
  double imag;
  uint64_t integer;
};

inline Weight make_weight(const Alpha& alpha, bool complex_pairs) {
  return {alpha.is_one, complex_pairs && !alpha.is_one, alpha.is_one ? 1.0 : alpha.real, alpha.imag,
          static_cast<uint64_t>(alpha.integer)};
}

// 16- and 32-bit floats: two directed fp64 sums enclose the exact one; a product with an fp32 weight is exact in fp64. On
// cards whose FP64 is slow (compute capability 8.6, 8.9, 12.0) a Sum of two floats and a residual would be the faster first
// filter; kernels ask nothing of a Sum but this interface.
template <class T>
struct Sum {
  Interval ends;

  static __device__ __forceinline__ Sum empty() { return {Interval::empty()}; }
  __device__ __forceinline__ void add(T x) { ends.add(to_double(x)); }
  __device__ __forceinline__ void add_product(double weight, T x) { ends.add(weight * to_double(x)); }
  __device__ __forceinline__ void add_weighted(const Weight& weight, T x) { add_product(weight.real, x); }
  __device__ __forceinline__ void merge(const Sum& other) { ends.merge(other.ends); }
  __device__ __forceinline__ bool round(T* result) const { return certify<T>(ends.lo, ends.hi, result); }
  __device__ __forceinline__ bool round_mean(int64_t count, T* result) const {
    return certify_mean<T>(ends.lo, ends.hi, count, result);
  }
};

template <>
struct Sum<double> {
  CompensatedSum parts;

  static __device__ __forceinline__ Sum empty() { return {CompensatedSum::empty()}; }
  __device__ __forceinline__ void add(double x) { parts.add(x); }
  // A product whose error term may be inexact leaves an infinite residual, which bounds nothing and never certifies.
  __device__ __forceinline__ void add_product(double weight, double x) {
    bool inexact = false;
    parts.add_product(weight, x, &inexact);
    if (inexact) parts.residual = infinity<double>(false);
  }
  __device__ __forceinline__ void add_weighted(const Weight& weight, double x) { add_product(weight.real, x); }
  __device__ __forceinline__ void merge(const Sum& other) { parts.merge(other.parts); }
  __device__ __forceinline__ bool round(double* result) const { return parts.certify(result); }
  __device__ __forceinline__ bool round_mean(int64_t count, double* result) const {
    return parts.certify_mean(count, result);
  }
};

// Integers modulo 2^n, for signed and unsigned alike.
template <class T>
  requires std::is_unsigned_v<T>
struct Sum<T> {
  T value;

  static __device__ __forceinline__ Sum empty() { return {0}; }
  __device__ __forceinline__ void add(T x) { value = static_cast<T>(value + x); }
  __device__ __forceinline__ void add_weighted(const Weight& weight, T x) { add(static_cast<T>(weight.integer * x)); }
  __device__ __forceinline__ void merge(const Sum& other) { add(other.value); }
  __device__ __forceinline__ bool round(T* result) const {
    *result = value;
    return true;
  }
};

template <>
struct Sum<Boolean> {
  uint8_t any;

  static __device__ __forceinline__ Sum empty() { return {0}; }
  __device__ __forceinline__ void add(Boolean x) { any |= static_cast<uint8_t>(x.bits != 0); }
  __device__ __forceinline__ void add_weighted(const Weight& weight, Boolean x) {
    any |= static_cast<uint8_t>(x.bits != 0 && weight.integer != 0);
  }
  __device__ __forceinline__ void merge(const Sum& other) { any |= other.any; }
  __device__ __forceinline__ bool round(Boolean* result) const {
    result->bits = any;
    return true;
  }
};

// Of the states that segments are reduced to, sums alone take weights and fall back to integers on the spot.
template <class State>
inline constexpr bool kIsSum = false;
template <class T>
inline constexpr bool kIsSum<Sum<T>> = true;
// ... and those of floats round a mean.
template <class State>
inline constexpr bool kHasMean = false;
template <class T>
inline constexpr bool kHasMean<Sum<T>> = kIsFloat<T>;

// Adds one contribution times a weight that is not one. `partner` is the other half of a complex pair, `is_imaginary` says
// which half x is; both matter only for complex weights.
template <class T>
__device__ __forceinline__ void add_weighted(Sum<T>& sum, const Weight& weight, T x, T partner, bool is_imaginary) {
  sum.add_weighted(weight, x);
  if constexpr (kIsFloat<T>) {
    if (weight.is_complex) sum.add_product(is_imaginary ? weight.imag : -weight.imag, partner);
  }
}

// The exact sum of nothing.
template <class T>
__device__ __forceinline__ T positive_zero() {
  using Long = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Bits = std::conditional_t<sizeof(T) == 1, uint8_t, std::conditional_t<sizeof(T) == 2, uint16_t, Long>>;
  return __builtin_bit_cast(T, Bits{0});
}

// kCount neighbouring elements, moved by one instruction.
template <class T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T values[kCount];
};

namespace detail {
template <int kBytes>
struct WordOfBytes;
template <>
struct WordOfBytes<1> { using Type = unsigned char; };
template <>
struct WordOfBytes<2> { using Type = unsigned short; };
template <>
struct WordOfBytes<4> { using Type = unsigned; };
template <>
struct WordOfBytes<8> { using Type = uint2; };
template <>
struct WordOfBytes<16> { using Type = uint4; };
}  // namespace detail

// Reads memory that nobody writes while the kernel runs.
template <class T, int kCount>
__device__ __forceinline__ Pack<T, kCount> load_constant(const T* address) {
  using Word = typename detail::WordOfBytes<sizeof(T) * kCount>::Type;
  return __builtin_bit_cast(Pack<T, kCount>, __ldg(reinterpret_cast<const Word*>(address)));
}

template <class T, int kCount>
__device__ __forceinline__ Pack<T, kCount> load(const T* address) {
  using Word = typename detail::WordOfBytes<sizeof(T) * kCount>::Type;
  return __builtin_bit_cast(Pack<T, kCount>, *reinterpret_cast<const Word*>(address));
}

template <class T, int kCount>
__device__ __forceinline__ void store(T* address, const Pack<T, kCount>& pack) {
  using Word = typename detail::WordOfBytes<sizeof(T) * kCount>::Type;
  *reinterpret_cast<Word*>(address) = __builtin_bit_cast(Word, pack);
}

}  // namespace reprocuda
