// The fingerprint of a tensor's bits (numerics/fingerprint.h).
//
// What      fingerprint_blocks: a warp takes a block of 2048 bytes, 64 bytes a lane, and adds what it folds to; a thread block
//           leaves one partial sum, or the digest itself where it is alone. fingerprint_finish adds the partial sums up.
// Guarantee the digest that every other backend gives, for any schedule: all sums are modulo 2^64. No atomic, nothing that
//           would have to be cleared first, and nothing but the digest is written.
// Cost      one pass. A lane keeps the 14 keys of its 8 words in registers: the keys of a row are those of the row before,
//           64 words on, and so are a lane's next words. Memory that is neither contiguous nor aligned to 16 bytes is gathered
//           element by element.
#pragma once

#include "../problems/fingerprint.h"
#include "device.cuh"

namespace reprocuda {

inline constexpr int kFingerprintThreads = 256;
inline constexpr int kFingerprintWarps = kFingerprintThreads / 32;
inline constexpr int kFingerprintPairs = kFingerprintWords / 64;  // of words, a lane
static_assert(kFingerprintKeyStep == 64, "a lane's next pair of words is as far as the next row's keys");

struct WordPair {
  uint64_t word[2];
};

// Every byte that is not 0 becomes 1.
__device__ inline uint64_t truth_of_bytes(uint64_t word) {
  word |= word >> 4;
  word |= word >> 2;
  word |= word >> 1;
  return word & 0x0101010101010101u;
}

// Contiguous and aligned to 16 bytes.
struct PackedWords {
  __device__ static WordPair load(const FingerprintProblem& problem, int64_t byte) {
    const int64_t bytes = problem.num_elements * problem.element_bytes;
    const auto* data = static_cast<const unsigned char*>(problem.data);
    WordPair pair = {};
    if (byte + 16 <= bytes) {
      const auto loaded = *reinterpret_cast<const ulonglong2*>(data + byte);
      pair = {{loaded.x, loaded.y}};
    } else {
      for (int k = 0; k < 16; ++k) {
        if (byte + k < bytes) pair.word[k / 8] |= static_cast<uint64_t>(data[byte + k]) << (8 * (k % 8));
      }
    }
    if (problem.is_bool) {
      for (uint64_t& word : pair.word) word = truth_of_bytes(word);
    }
    return pair;
  }
};

// Anywhere: elements of kBytes, gathered along their strides.
template <int kBytes>
struct StridedWords {
  __device__ static int64_t offset_of(const FingerprintProblem& problem, int64_t element) {
    int64_t offset = 0;
    for (int d = problem.ndim - 1; d >= 0; --d) {
      offset += element % problem.sizes[d] * problem.strides[d];
      element /= problem.sizes[d];
    }
    return offset;
  }

  __device__ static WordPair load(const FingerprintProblem& problem, int64_t byte) {
    const int64_t first = byte / kBytes;
    WordPair pair = {};
    if (first >= problem.num_elements) return pair;
    const int last = problem.ndim - 1;
    int64_t coordinate = first % problem.sizes[last];
    int64_t offset = offset_of(problem, first);
    for (int k = 0; k < 16 / kBytes; ++k) {
      if (k > 0) {
        if (first + k >= problem.num_elements) break;
        offset += problem.strides[last];
        if (++coordinate == problem.sizes[last]) {
          coordinate = 0;
          offset = offset_of(problem, first + k);
        }
      }
      put(problem, offset, k * kBytes, pair);
    }
    return pair;
  }

  __device__ static void put(const FingerprintProblem& problem, int64_t offset, int at, WordPair& pair) {
    uint64_t value = 0;
    if constexpr (kBytes == 1) {
      value = static_cast<const uint8_t*>(problem.data)[offset];
      if (problem.is_bool) value = value != 0;
    } else if constexpr (kBytes == 2) {
      value = static_cast<const uint16_t*>(problem.data)[offset];
    } else if constexpr (kBytes == 4) {
      value = static_cast<const uint32_t*>(problem.data)[offset];
    } else if constexpr (kBytes == 8) {
      value = static_cast<const uint64_t*>(problem.data)[offset];
    } else {
      const uint64_t* words = static_cast<const uint64_t*>(problem.data) + 2 * offset;
      pair = {{words[0], words[1]}};
      return;
    }
    pair.word[at / 8] |= value << (8 * (at % 8));
  }
};

__device__ inline uint64_t exchange(uint64_t value, int lanes) {
  return __shfl_xor_sync(0xffffffffu, static_cast<unsigned long long>(value), lanes);
}

// The sum over a thread block, in thread 0.
__device__ inline Fingerprint block_sum(Fingerprint mine) {
  __shared__ Fingerprint sums[kFingerprintWarps];
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    mine.add({{exchange(mine.lane[0], lanes), exchange(mine.lane[1], lanes)}});
  }
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int warp = 1; warp < kFingerprintWarps; ++warp) mine.add(sums[warp]);
  }
  return mine;
}

__device__ inline void write_digest(const Fingerprint& header, const Fingerprint& sums, int64_t* digest) {
  const Fingerprint result = fingerprint_digest(header, sums);
  digest[0] = static_cast<int64_t>(result.lane[0]);
  digest[1] = static_cast<int64_t>(result.lane[1]);
}

// partials [gridDim.x], not read nor written where there is one block.
template <class Words>
__global__ void __launch_bounds__(kFingerprintThreads, 2)
    fingerprint_blocks(const __grid_constant__ FingerprintProblem problem, int64_t num_blocks, Fingerprint* partials,
                       int64_t* digest) {
  const int lane = threadIdx.x % 32;
  const int64_t warp = static_cast<int64_t>(blockIdx.x) * kFingerprintWarps + threadIdx.x / 32;
  uint64_t keys[2 * (kFingerprintPairs + kFingerprintRows - 1)];
  for (int m = 0; m < kFingerprintPairs + kFingerprintRows - 1; ++m) {
    for (int e = 0; e < 2; ++e) keys[2 * m + e] = fingerprint_key(64 * m + 2 * lane + e);
  }
  const int half = lane / 16;  // which lane of the fingerprint this half of the warp folds
  const bool second = lane / 8 % 2 == 1;
  uint64_t sum = 0;
  for (int64_t block = warp; block < num_blocks; block += static_cast<int64_t>(gridDim.x) * kFingerprintWarps) {
    WordPair pairs[kFingerprintPairs];
    for (int j = 0; j < kFingerprintPairs; ++j) {
      pairs[j] = Words::load(problem, block * kFingerprintBlockBytes + 512 * j + 16 * lane);
    }
    uint64_t rows[kFingerprintRows] = {};
    for (int j = 0; j < kFingerprintPairs; ++j) {
      for (int r = 0; r < kFingerprintRows; ++r) {
        for (int e = 0; e < 2; ++e) rows[r] += fingerprint_product(pairs[j].word[e], keys[2 * (j + r) + e]);
      }
    }
    // Each half of the warp takes two rows over from the other, each quarter one of those, and adds it up.
    const uint64_t a = (half == 0 ? rows[0] : rows[2]) + exchange(half == 0 ? rows[2] : rows[0], 16);
    const uint64_t b = (half == 0 ? rows[1] : rows[3]) + exchange(half == 0 ? rows[3] : rows[1], 16);
    uint64_t row = (second ? b : a) + exchange(second ? a : b, 8);
    for (int lanes = 4; lanes > 0; lanes /= 2) row += exchange(row, lanes);
    const uint64_t other = exchange(row, 8);
    sum += fingerprint_fold(second ? other : row, second ? row : other, block, half);
  }
  const Fingerprint sums = block_sum({{lane == 0 ? sum : 0, lane == 16 ? sum : 0}});
  if (threadIdx.x != 0) return;
  if (gridDim.x == 1) {
    write_digest(problem.header, sums, digest);
  } else {
    partials[blockIdx.x] = sums;
  }
}

// One thread block.
__global__ void __launch_bounds__(kFingerprintThreads)
    fingerprint_finish(const Fingerprint* partials, int num_partials, Fingerprint header, int64_t* digest) {
  Fingerprint mine = {};
  for (int i = threadIdx.x; i < num_partials; i += kFingerprintThreads) mine.add(partials[i]);
  const Fingerprint sums = block_sum(mine);
  if (threadIdx.x == 0) write_digest(header, sums, digest);
}

}  // namespace reprocuda
