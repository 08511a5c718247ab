// The last stage of a product: an integer of many 32-bit words, cut off at the low end when it outgrows its memory.
//
// Guarantee: when round returns true, *result is the exact product rounded once. The product is (words + e) * 2^exponent
// with 0 <= e <= error; while nothing was cut off, error is 0 and it is exact. A product that round does not settle lies
// within the error of a tie or of another boundary, and is multiplied anew with more words. Integers only: no mode matters.
#pragma once

#include "product.h"

namespace reprocuda {

class ExactProduct {
 public:
  // What the memory of `capacity` words must hold besides: a factor's worth.
  static constexpr int kSpareWords = 2;
  static constexpr int kSmallestCapacity = 8;

  REPROCUDA_HD ExactProduct(uint32_t* words, int capacity) : words_(words), capacity_(capacity) { words_[0] = 1; }

  REPROCUDA_HD void multiply(double x) {
    negative_ = negative_ != is_negative(x);
    if (!detail::is_ordinary(x)) {
      special_ *= magnitude(x);  // 1, 0, infinity or NaN
      return;
    }
    const Decoded parts = detail::decode_normalized(x);
    // Odd, so that exact products stay short.
    int zeros = 0;
    for (int step = 32; step > 0; step /= 2) {
      if (((parts.significand >> zeros) & ((uint64_t{1} << step) - 1)) == 0) zeros += step;
    }
    exponent_ += parts.exponent + zeros;
    multiply_by(parts.significand >> zeros);
  }

  template <class T>
  REPROCUDA_HD bool round(T* result) {
    if (detail::classify_product(negative_, special_, result)) return true;
    *result = rounded<T>();
    if (error_ == 0) return true;
    if (overflowed_) return false;
    const T low = *result;
    uint64_t carry = error_;
    for (int i = 0; carry != 0; ++i) {
      if (i == size_) words_[size_++] = 0;
      carry += words_[i];
      words_[i] = static_cast<uint32_t>(carry);
      carry >>= 32;
    }
    *result = rounded<T>();
    return bits_of(low) == bits_of(*result);
  }

 private:
  REPROCUDA_HD void multiply_by(uint64_t factor) {
    if (factor == 1) return;
    uint64_t carry = 0;
    REPROCUDA_ROLLED
    for (int i = 0; i < size_; ++i) {
      uint64_t high, low;
      multiply_wide(words_[i], factor, &high, &low);
      low += carry;
      high += low < carry ? 1 : 0;
      words_[i] = static_cast<uint32_t>(low);
      carry = (high << 32) | (low >> 32);
    }
    for (; carry != 0; carry >>= 32) words_[size_++] = static_cast<uint32_t>(carry);
    const int cut = size_ > capacity_ ? size_ - capacity_ : 0;
    if (error_ != 0) {
      uint64_t high, low;
      multiply_wide(error_, factor, &high, &low);
      // A cut of one word or two takes 32 or 64 bits off the error as well; what it rounds away is one more.
      overflowed_ = overflowed_ || (cut < 2 && (high >> (32 * cut)) != 0);
      error_ = (cut == 0 ? low : cut == 1 ? (high << 32) | (low >> 32) : high) + (cut == 0 ? 0 : 1);
    }
    if (cut == 0) return;
    bool any = false;
    for (int i = 0; i < cut; ++i) any = any || words_[i] != 0;
    REPROCUDA_ROLLED
    for (int i = 0; i < capacity_; ++i) words_[i] = words_[i + cut];
    size_ = capacity_;
    exponent_ += 32 * cut;
    error_ += any ? 1 : 0;
  }

  REPROCUDA_HD uint64_t word(int i) const { return i >= 0 ? words_[i] : 0; }

  template <class T>
  REPROCUDA_HD T rounded() const {
    const uint64_t high = (word(size_ - 1) << 32) | word(size_ - 2);
    const uint64_t low = (word(size_ - 3) << 32) | word(size_ - 4);
    bool sticky = false;
    for (int i = 0; i < size_ - 4; ++i) sticky = sticky || words_[i] != 0;
    return round_scaled_wide<T>(negative_, high, low, detail::clamped_exponent(exponent_ + 32 * (size_ - 4)), sticky);
  }

  uint32_t* words_;
  int capacity_;
  int size_ = 1;
  int64_t exponent_ = 0;
  double special_ = 1.0;
  uint64_t error_ = 0;
  bool overflowed_ = false;
  bool negative_ = false;
};

// `multiply_all(product)` multiplies in every factor, as often as it is asked to: with more words, as far as `most_words` go,
// each time that the result is not settled. Behind that, a few thousand bits from a boundary, the lower neighbour it is.
template <class T, class MultiplyAll>
REPROCUDA_HD T multiply_until_settled(uint32_t* words, int most_words, MultiplyAll&& multiply_all) {
  const int most = most_words - ExactProduct::kSpareWords;
  for (int capacity = ExactProduct::kSmallestCapacity;; capacity = capacity < most / 8 ? capacity * 8 : most) {
    ExactProduct product(words, capacity);
    multiply_all(product);
    T result;
    if (product.round(&result) || capacity == most) return result;
  }
}

}  // namespace reprocuda
