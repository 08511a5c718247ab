// Accumulation into few outputs: every block keeps private, always exact accumulators in shared memory.
//
// What: an accumulator is a fixed-point number that covers the whole format, cut into digits of 16 bits in 32-bit words, the
// only size with native shared-memory atomics. A contribution adds its 2 or 3 digits (5 for fp64). After at most 2^15
// contributions a block adds its words to 64-bit limbs in device memory and starts anew. A second kernel rounds.
// Guarantee: the exact sum rounded once, for any schedule: nothing is ever cut off, so there is nothing to prove and no
// fallback. Why no word overflows: 2^15 digits below 2^16 are below 2^31. Out-of-range indices trap before anything is
// written to the result.
// Cost: reads src and index once; 2.5 shared atomics a contribution, spread over up to 32 copies of the accumulators (one for
// each lane of a warp) so that a popular output does not make lanes wait for each other. Device memory: 8 bytes a limb and
// output.
#pragma once

#include "element.cuh"
#include "fixed_point_compose.cuh"
#include "keys.cuh"

namespace reprocuda {

inline constexpr int kBinThreads = 512;
inline constexpr int kBinUnroll = 4;
inline constexpr int kBinDigitBits = 16;
inline constexpr int64_t kMostBinTile = int64_t{1} << 15;  // contributions before words could overflow
inline constexpr int kBinFinishWarps = 4;

template <class T>
struct BinFormat {
  using F = FloatFormat<T>;
  static constexpr int kDigits = (F::kPrecision + 2 * (kBinDigitBits - 1)) / kBinDigitBits;  // of one number
  static constexpr int kHighestPosition = static_cast<int>(F::kExponentMask) - 2;            // of a last bit
  static constexpr int kLimbs = kHighestPosition / kBinDigitBits + kDigits;
  static constexpr int kStride = kLimbs | 1;  // odd: neighbouring outputs start in different banks
};

// The workspace of one call, cleared before the first kernel.
struct BinState {
  unsigned long long* limbs = nullptr;   // [num_outputs, kLimbs]
  unsigned long long* counts = nullptr;  // [num_targets] or nullptr
  uint32_t* classes = nullptr;           // [num_outputs]
  int64_t num_targets = 0;               // with counts; else 0
  int64_t tile = 0;                      // contributions between two flushes, at most kMostBinTile
  int copies = 1;                        // a power of 2, at most 32
};

template <class T>
int64_t bin_shared_bytes(int64_t num_outputs, int64_t num_counts, int copies) {
  return 4 * (copies * (BinFormat<T>::kStride * num_outputs + num_counts) + num_outputs);
}

// A block's accumulators.
template <class T>
struct Bins {
  using Format = BinFormat<T>;
  uint32_t* words;    // [num_outputs, kStride, copies]
  uint32_t* counts;   // [num_targets, copies]
  uint32_t* classes;  // [num_outputs]
  int64_t num_words;
  int copies;

  __device__ Bins(uint32_t* memory, int64_t num_outputs, const BinState& state)
      : words(memory), copies(state.copies) {
    num_words = num_outputs * Format::kStride * copies;
    counts = words + num_words;
    classes = counts + state.num_targets * copies;
  }

  __device__ void add(T x, const Place& place, bool count) {
    const int copy = static_cast<int>(threadIdx.x) & (copies - 1);
    if (count && place.target >= 0) atomicAdd(&counts[place.target * copies + copy], 1u);
    const uint32_t seen = class_of(x);
    raise_flags(&classes[place.output], seen);
    if ((seen & (kPositive | kNegative)) == 0) return;
    const Significand parts = split_magnitude<T>(magnitude_of(x));
    const int shift = parts.position % kBinDigitBits;
    uint32_t* word = words + (place.output * Format::kStride + parts.position / kBinDigitBits) * copies + copy;
    // The lowest digit first; `rest` is what lies above it.
    uint32_t digit = static_cast<uint32_t>(parts.value << shift) & 0xffffu;
    uint64_t rest = parts.value >> (kBinDigitBits - shift);
    for (int k = 0; k < Format::kDigits; ++k) {
      if (digit != 0) atomicAdd(word + k * copies, seen == kNegative ? 0 - digit : digit);
      digit = static_cast<uint32_t>(rest) & 0xffffu;
      rest >>= kBinDigitBits;
    }
  }

  __device__ int64_t take(uint32_t* first) const {
    int64_t sum = 0;
    for (int copy = 0; copy < copies; ++copy) {
      sum += static_cast<int32_t>(first[copy]);
      first[copy] = 0;
    }
    return sum;
  }
};

template <class T, class Keys>
__global__ void __launch_bounds__(kBinThreads, 2)
    bins_accumulate(const __grid_constant__ Keys keys, const T* src, const __grid_constant__ BinState state) {
  using Format = BinFormat<T>;
  Bins<T> bins(dynamic_shared<uint32_t>(), keys.num_outputs, state);
  const int64_t all_words = bins.classes - bins.words + keys.num_outputs;
  for (int64_t i = threadIdx.x; i < all_words; i += kBinThreads) bins.words[i] = 0;
  __syncthreads();

  const bool counting = state.counts != nullptr;
  for (int64_t begin = blockIdx.x * state.tile; begin < keys.count; begin += gridDim.x * state.tile) {
    const int64_t end = begin + state.tile < keys.count ? begin + state.tile : keys.count;
    for (int64_t first = begin + threadIdx.x; first < end; first += kBinUnroll * kBinThreads) {
      Place places[kBinUnroll];
      T values[kBinUnroll];
      for (int k = 0; k < kBinUnroll; ++k) {
        const int64_t e = first + k * kBinThreads;
        places[k] = e < end ? keys.locate(e) : Place{0, -1, -1};
      }
      for (int k = 0; k < kBinUnroll; ++k) values[k] = places[k].output >= 0 ? src[places[k].source] : zero<T>(false);
      for (int k = 0; k < kBinUnroll; ++k) {
        if (places[k].output >= 0) bins.add(values[k], places[k], counting);
      }
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < keys.num_outputs * Format::kStride; i += kBinThreads) {
      const int64_t sum = bins.take(bins.words + i * bins.copies);
      const int64_t output = i / Format::kStride;
      const int64_t limb = output * Format::kLimbs + i % Format::kStride;
      if (sum != 0) atomicAdd(&state.limbs[limb], static_cast<unsigned long long>(sum));
    }
    for (int64_t t = threadIdx.x; t < state.num_targets; t += kBinThreads) {
      const int64_t sum = bins.take(bins.counts + t * bins.copies);
      if (sum != 0) atomicAdd(&state.counts[t], static_cast<unsigned long long>(sum));
    }
    __syncthreads();
  }
  for (int64_t f = threadIdx.x; f < keys.num_outputs; f += kBinThreads) {
    if (bins.classes[f] != 0) raise_flags(&state.classes[f], bins.classes[f]);
  }
}

// The limbs that are not zero, of the outputs of one cell, as compose() wants to see them.
template <class T>
struct BinSums {
  static constexpr bool kTwoLimbs = false;
  static constexpr bool kComplete = true;
  static constexpr int kLimbs = BinFormat<T>::kLimbs;
  int64_t value[2][kLimbs];
  int16_t place[2][kLimbs];
  int length[2];
  uint32_t seen[2];
  int64_t first;  // the cell's first output

  __device__ int limbs(int64_t f) const { return length[f - first]; }
  __device__ int unit(int64_t f, int j) const {
    return FloatFormat<T>::kUnitExponent + kBinDigitBits * place[f - first][j];
  }
  __device__ int64_t limb(int64_t f, int j) const { return value[f - first][j]; }
  __device__ static int64_t error(int64_t) { return 0; }
  __device__ uint32_t classes(int64_t f) const { return seen[f - first]; }
};

// One warp a cell: the lanes gather what is not zero, one of them rounds.
template <class T, class Keys>
__global__ void __launch_bounds__(kBinFinishWarps * 32)
    bins_finish(const __grid_constant__ Keys keys, T* out, const __grid_constant__ OutputRule<T> rule,
                const __grid_constant__ BinState state) {
  constexpr int kLimbs = BinFormat<T>::kLimbs;
  __shared__ BinSums<T> gathered[kBinFinishWarps];
  const int warp = threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  BinSums<T>& sums = gathered[warp];
  const int cell = rule.pairs ? 2 : 1;
  const int64_t first = (static_cast<int64_t>(blockIdx.x) * kBinFinishWarps + warp) * cell;
  if (first >= keys.num_outputs) return;
  for (int c = 0; c < cell; ++c) {
    int length = 0;
    for (int base = 0; base < kLimbs; base += 32) {
      const int k = base + lane;
      const int64_t limb = k < kLimbs ? static_cast<int64_t>(state.limbs[(first + c) * kLimbs + k]) : 0;
      const unsigned present = __ballot_sync(0xffffffffu, limb != 0);
      const int slot = length + __popc(present & ((1u << lane) - 1));
      if (limb != 0) {
        sums.value[c][slot] = limb;
        sums.place[c][slot] = static_cast<int16_t>(k);
      }
      length += __popc(present);
    }
    if (lane == 0) {
      sums.length[c] = length;
      sums.seen[c] = state.classes[first + c];
    }
  }
  if (lane == 0) sums.first = first;
  __syncwarp();
  if (lane != 0) return;
  T results[2];
  compose_cell(sums, rule, keys, first, cell, results);
  for (int c = 0; c < cell; ++c) out[first + c] = results[c];
}

}  // namespace reprocuda
