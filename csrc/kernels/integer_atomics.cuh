// Reductions that one integer atomic a contribution does: the largest or smallest of anything, and products of integers.
//
// What: accumulate combines what every contribution stands for (a word) with the word of its output, by an atomic maximum or a
// loop of compare-and-swap; finish joins self to it and turns words back. 0 is the word of no contribution, so that
// clearing prepares; where a contribution may leave a 0 behind, and self does not count, it also raises a bit.
// Guarantee: the same bits for any schedule, because maxima and products modulo 2^n have no order; numbers are ordered
// as numerics/ordered.h has it. Nothing is written to the result before every index is checked.
// Cost: one read of src and index, 1 atomic a contribution (none where a word already holds more), 4 or 8 bytes an output
// and sometimes a bit, 3 graph nodes with the clearing.
#pragma once

#include "../numerics/ordered.h"
#include "fixed_point_integers.cuh"

namespace reprocuda {

// One byte; anything but 0 is true.
struct BoolOrder : IntegerOrder<uint8_t> {
  static REPROCUDA_HD Key key(Bits bits, bool largest) { return IntegerOrder<uint8_t>::key(bits != 0, largest); }
};

// The largest key wins, as an unsigned word. Those of elements narrower than a word begin with 1.
template <class Order>
struct ExtremeWords {
  using Element = typename Order::Bits;
  using Key = typename Order::Key;
  using Word = IntegerWord<Key>;
  static constexpr bool kNarrow = sizeof(Key) < sizeof(Word);
  static constexpr bool kMayLeaveZero = !kNarrow && Order::kHasLeast;
  static constexpr Word kOffset = kNarrow ? Word{1} - static_cast<Word>(std::numeric_limits<Key>::min())
                                          : static_cast<Word>(std::numeric_limits<Key>::min());

  bool largest = true;

  __device__ Word word(Element x) const { return static_cast<Word>(Order::key(x, largest)) + kOffset; }
  __device__ Element element(Word word) const { return Order::bits(static_cast<Key>(word - kOffset), largest); }
  __device__ bool leaves_zero(Word word) const { return kMayLeaveZero && word == 0; }
  __device__ Word joined(Word a, Word b) const { return a < b ? b : a; }
  __device__ void combine(Word* with, Word word) const {
    if (peek(with) < word) atomicMax(with, word);
  }
};

// Modulo 2^n; the word of 1 is 0.
template <class T>
struct ProductWords {
  using Element = T;
  using Word = IntegerWord<T>;
  static constexpr bool kMayLeaveZero = true;

  __device__ Word word(Element x) const { return x ^ Word{1}; }
  __device__ Element element(Word word) const { return static_cast<Element>(word ^ 1); }
  __device__ bool leaves_zero(Word) const { return true; }
  __device__ Word joined(Word a, Word b) const { return ((a ^ 1) * (b ^ 1)) ^ 1; }
  __device__ void combine(Word* with, Word word) const {
    if (word == 0) return;
    for (Word seen = peek(with);;) {
      const Word wanted = joined(seen, word);
      if (wanted == seen) return;
      const Word found = atomicCAS(with, seen, wanted);
      if (found == seen) return;
      seen = found;
    }
  }
};

template <class Words, class Keys>
__global__ void __launch_bounds__(kIntegerThreads)
    integer_atomics_accumulate(const __grid_constant__ Keys keys, Words how, const typename Words::Element* src,
                     typename Words::Word* words,  // [num_outputs]
                     unsigned* touched)            // a bit an output, or nullptr
{
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const Place place = keys.locate(e);
    if (place.output < 0) continue;
    const auto word = how.word(src[place.source]);
    if (touched != nullptr && how.leaves_zero(word)) {
      const unsigned bit = 1u << (place.output % 32);
      if ((peek(&touched[place.output / 32]) & bit) == 0) atomicOr(&touched[place.output / 32], bit);
    }
    how.combine(&words[place.output], word);
  }
}

template <class Words>
__global__ void __launch_bounds__(kIntegerThreads)
    integer_atomics_finish(Words how, int64_t num_outputs, const typename Words::Word* words, const unsigned* touched,
                 const typename Words::Element* self,  // one more contribution, or nullptr
                 const typename Words::Element* kept,  // what an output without contributions keeps, or nullptr
                 typename Words::Element* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t f = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; f < num_outputs; f += step) {
    const auto word = words[f];
    const bool is_touched = word != 0 || (touched != nullptr && ((touched[f / 32] >> (f % 32)) & 1) != 0);
    if (is_touched) {
      out[f] = how.element(self == nullptr ? word : how.joined(word, how.word(self[f])));
    } else if (kept != out) {
      out[f] = kept == nullptr ? typename Words::Element{0} : kept[f];
    }
  }
}

}  // namespace reprocuda
