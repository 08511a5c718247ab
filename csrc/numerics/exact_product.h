// The last stage of a product: an integer of many 32-bit words, cut off at the low end when it outgrows its memory.
//
// Guarantee: when round returns true, *result is the exact product rounded once. The product is (words + e) * 2^exponent
// with 0 <= e <= error; while nothing was cut off, error is 0 and it is exact. A product that round does not settle lies
// within the error of a tie or of another boundary, and is multiplied anew with more words; with exact_product_words of them
// nothing is cut off, so that it is settled. Integers only: no mode matters.
#pragma once

#include "product.h"

namespace reprocuda {

class ExactProduct {
 public:
  static constexpr int kSmallestCapacity = 8;
  // What the memory of `capacity` words must hold besides: a factor's worth.
  static constexpr int kSpareWords = 2;

  REPROCUDA_HD ExactProduct(uint32_t* words, int64_t capacity) : words_(words), capacity_(capacity) { words_[0] = 1; }

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

  // By another product of the same capacity. Both need memory of twice as many words.
  REPROCUDA_HD void merge(const ExactProduct& other) {
    negative_ = negative_ != other.negative_;
    special_ *= other.special_;
    exponent_ += other.exponent_;
    overflowed_ = overflowed_ || other.overflowed_;
    // (W + e)(V + f) is WV + e(V + f) + fW.
    const Bound own_bound = bound(false);
    const Bound other_bound = other.bound(true);
    const uint64_t own_error = error_;
    size_ = multiply_words(other);
    const int64_t cut = size_ > capacity_ ? size_ - capacity_ : 0;
    error_ = 0;
    if (own_error != 0) add_error(own_error, other_bound, cut);
    if (other.error_ != 0) add_error(other.error_, own_bound, cut);
    cut_off(cut);
  }

  template <class T>
  REPROCUDA_HD bool round(T* result) {
    if (detail::classify_product(negative_, special_, result)) return true;
    *result = rounded<T>();
    if (overflowed_) return false;
    if (error_ == 0) return true;
    const T low = *result;
    uint64_t carry = error_;
    for (int64_t i = 0; carry != 0; ++i) {
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
    for (int64_t i = 0; i < size_; ++i) {
      uint64_t high, low;
      multiply_wide(words_[i], factor, &high, &low);
      low += carry;
      high += low < carry ? 1 : 0;
      words_[i] = static_cast<uint32_t>(low);
      carry = (high << 32) | (low >> 32);
    }
    for (; carry != 0; carry >>= 32) words_[size_++] = static_cast<uint32_t>(carry);
    const int64_t cut = size_ > capacity_ ? size_ - capacity_ : 0;
    if (error_ != 0) {
      const uint64_t error = error_;
      error_ = 0;
      add_error(error, {factor, 0}, cut);
    }
    cut_off(cut);
  }

  // Schoolbook multiplication, in place from the highest word down. Returns the size.
  REPROCUDA_HD int64_t multiply_words(const ExactProduct& other) {
    for (int64_t i = size_; i < size_ + other.size_; ++i) words_[i] = 0;
    for (int64_t i = size_ - 1; i >= 0; --i) {
      const uint64_t factor = words_[i];
      words_[i] = 0;
      uint64_t carry = 0;
      REPROCUDA_ROLLED
      for (int64_t j = 0; j < other.size_; ++j) {
        carry += factor * other.words_[j] + words_[i + j];  // at most 2^64 - 1
        words_[i + j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
      for (int64_t j = i + other.size_; carry != 0; ++j) {
        carry += words_[j];
        words_[j] = static_cast<uint32_t>(carry);
        carry >>= 32;
      }
    }
    const int64_t size = size_ + other.size_;
    return words_[size - 1] == 0 ? size - 1 : size;
  }

  // At most leading * 2^(32 * below); a leading part of 0 stands for 2^64.
  struct Bound {
    uint64_t leading;
    int64_t below;
  };

  // Of the words, with the error or without. An error has no more than 2 words, and is not 0 unless there are `capacity_`.
  REPROCUDA_HD Bound bound(bool with_error) const {
    if (size_ == 1) return {words_[0], 0};
    const uint64_t leading = (word(size_ - 1) << 32) | word(size_ - 2);
    const uint64_t more = (size_ > 2 ? 1 : 0) + (with_error && error_ != 0 ? 1 : 0);
    return {leading + more < leading ? 0 : leading + more, size_ - 2};
  }

  // What `error` grows to when it is multiplied, in words that lose the lowest `cut`.
  REPROCUDA_HD void add_error(uint64_t error, Bound factor, int64_t cut) {
    const int64_t shift = cut - factor.below;  // of words; 4 are the most that the product has
    uint64_t high, low;
    multiply_wide(error, factor.leading, &high, &low);
    overflowed_ = overflowed_ || factor.leading == 0;
    if (shift < 0 || (shift < 2 && (high >> (32 * shift)) != 0)) overflowed_ = true;
    const uint64_t scaled = shift <= 0 ? low : shift == 1 ? (high << 32) | (low >> 32) : high;
    grow_error(scaled);
    if (shift > 0) grow_error(1);
  }

  REPROCUDA_HD void grow_error(uint64_t amount) {
    error_ += amount;
    overflowed_ = overflowed_ || error_ < amount;
  }

  REPROCUDA_HD void cut_off(int64_t cut) {
    if (cut == 0) return;
    bool any = false;
    for (int64_t i = 0; i < cut; ++i) any = any || words_[i] != 0;
    REPROCUDA_ROLLED
    for (int64_t i = 0; i < capacity_; ++i) words_[i] = words_[i + cut];
    size_ = capacity_;
    exponent_ += 32 * cut;
    if (any) grow_error(1);
  }

  REPROCUDA_HD uint64_t word(int64_t i) const { return i >= 0 ? words_[i] : 0; }

  template <class T>
  REPROCUDA_HD T rounded() const {
    const uint64_t high = (word(size_ - 1) << 32) | word(size_ - 2);
    const uint64_t low = (word(size_ - 3) << 32) | word(size_ - 4);
    bool sticky = false;
    for (int64_t i = 0; i < size_ - 4; ++i) sticky = sticky || words_[i] != 0;
    return round_scaled_wide<T>(negative_, high, low, detail::clamped_exponent(exponent_ + 32 * (size_ - 4)), sticky);
  }

  uint32_t* words_;
  int64_t capacity_;
  int64_t size_ = 1;
  int64_t exponent_ = 0;
  double special_ = 1.0;
  uint64_t error_ = 0;
  bool overflowed_ = false;
  bool negative_ = false;
};

// Words, the spare ones included, that hold any product of so many elements of T.
template <class T>
REPROCUDA_HD int64_t exact_product_words(int64_t num_factors) {
  return num_factors * FloatFormat<T>::kPrecision / 32 + 1 + ExactProduct::kSpareWords;
}

// `multiply_all(product)` multiplies in every factor, as often as it is asked to: each time that the result is not settled,
// with more of the words that `memory(words)` returns, at last with as many as hold the whole product, or all of
// `available` (more than the first round takes). False if those do not settle it.
template <class T, class Memory, class MultiplyAll>
REPROCUDA_HD bool multiply_until_settled(int64_t num_factors, int64_t available, Memory&& memory, MultiplyAll&& multiply_all,
                                         T* result) {
  const int64_t whole = exact_product_words<T>(num_factors);
  const int64_t most = (whole < available ? whole : available) - ExactProduct::kSpareWords;
  for (int64_t capacity = ExactProduct::kSmallestCapacity;; capacity = capacity < most / 8 ? capacity * 8 : most) {
    ExactProduct product(memory(capacity + ExactProduct::kSpareWords), capacity);
    multiply_all(product);
    if (product.round(result)) return true;
    if (capacity >= most) return false;
  }
}

}  // namespace reprocuda
