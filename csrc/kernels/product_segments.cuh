// Products of rows that are grouped by target: out[t] = self[t] * product of the rows between offsets[t] and offsets[t + 1].
//
// What: the kernels of sorted_segments.cuh and split_segments.cuh with a Product in place of a Sum, then
// products_settle for the outputs whose bits they set: it multiplies in integers.
// Guarantee: every output is the exact product rounded once, for any schedule; untouched targets keep self. Why: a Product
// vouches for its own rounding, in any order and split; an ExactProduct of few words likewise, and if both refuse, as many
// words as it takes are multiplied one factor after the other. Where even the pool does not hold these (4 million bits and
// more), the output is named and the kernel traps: nothing is guessed.
// Cost: as a sum by rows, with some 20 operations of fp64 a factor, and a bit an output. What a Product refuses lies within
// 2^-70 of a tie, seldom but on purpose: another pass by a block a piece.
#pragma once

#include "../numerics/exact_product.h"
#include "segment_problem.cuh"

namespace reprocuda {

// One filter for all four formats: that for fp64 leaves nothing of the narrower ones to the fallback.
template <class T>
struct Product {
  CompensatedProduct parts;

  static __device__ __forceinline__ Product empty() { return {CompensatedProduct::empty()}; }
  __device__ __forceinline__ void add(T x) { parts.multiply(to_double(x)); }
  __device__ __forceinline__ void merge(const Product& other) { parts.merge(other.parts); }
  __device__ __forceinline__ bool round(T* result) const {
    return certify_product(parts.scale, parts.head, parts.rest, parts.inexact, result);
  }
};

inline constexpr int kSettleThreads = 128;
inline constexpr int kMergeCapacity = ExactProduct::kSmallestCapacity;
inline constexpr int kMergeWords = 2 * kMergeCapacity + ExactProduct::kSpareWords;

// Does not return.
__attribute__((noinline)) __device__ inline void report_unsettled_product(int64_t output, int64_t num_factors, int64_t words) {
  printf("reprocuda: the product of %lld factors for output %lld is so near to a tie that %lld bits do not decide it\n",
         static_cast<long long>(num_factors), static_cast<long long>(output), static_cast<long long>(32 * words));
  __trap();
}

// The factors of one output.
template <class T>
struct Factors {
  const SegmentProblem& problem;
  const T* src;   // the column in row 0 of this outer
  const T* self;  // the element of self, or nullptr
  int64_t begin;
  int64_t end;

  __device__ Factors(const SegmentProblem& problem, int64_t output) : problem(problem) {
    const int64_t row = output / problem.inner;
    const int64_t outer = row / problem.num_targets;
    const int64_t target = row - outer * problem.num_targets;
    src = static_cast<const T*>(problem.src) + outer * problem.num_rows * problem.inner + (output - row * problem.inner);
    self = problem.self == nullptr ? nullptr : static_cast<const T*>(problem.self) + output;
    begin = problem.offsets[target];
    end = problem.offsets[target + 1];
    if (begin < 0 || end > problem.num_rows) report_bad_offsets(problem.num_rows);
  }

  __device__ int64_t count() const { return end - begin + (self != nullptr ? 1 : 0); }

  // Those of one of `size` threads.
  __device__ void multiply_into(ExactProduct& product, int rank, int size) const {
    if (self != nullptr && rank == 0) product.multiply(to_double(*self));
#pragma unroll 1
    for (int64_t i = begin + rank; i < end; i += size) {
      product.multiply(to_double(src[source_row(problem, i) * problem.inner]));
    }
  }
};

template <class T>
struct ProductSettler {
  const SegmentProblem& problem;
  uint32_t (&words)[kSettleThreads][kMergeWords];
  unsigned char (&products)[kSettleThreads][sizeof(ExactProduct)];
  uint32_t* pool;  // [pool_words], of this block
  int64_t pool_words;

  __device__ ExactProduct& product_of(int thread) const { return *reinterpret_cast<ExactProduct*>(products[thread]); }

  // Called by the whole block.
  __device__ void settle(int64_t output) const {
    const int thread = static_cast<int>(threadIdx.x);
    const Factors<T> factors(problem, output);
    ExactProduct own(words[thread], kMergeCapacity);
    factors.multiply_into(own, thread, kSettleThreads);
    product_of(thread) = own;
    for (int half = kSettleThreads / 2; half > 0; half /= 2) {
      __syncthreads();
      if (thread < half) product_of(thread).merge(product_of(thread + half));
    }
    if (thread == 0) static_cast<T*>(problem.out)[output] = round(factors, output);
    __syncthreads();  // the words are free again
  }

 private:
  __device__ T round(const Factors<T>& factors, int64_t output) const {
    T result;
    if (product_of(0).round(&result)) return result;
    const auto memory = [&](int64_t) { return pool; };
    const auto multiply_all = [&](ExactProduct& product) { factors.multiply_into(product, 0, 1); };
    if (!multiply_until_settled(factors.count(), pool_words, memory, multiply_all, &result)) {
      report_unsettled_product(output, factors.count(), pool_words - ExactProduct::kSpareWords);
    }
    return result;
  }
};

// A block looks through one tile of `problem.unsettled` after the other, and settles one output at a time.
template <class T>
__global__ void __launch_bounds__(kSettleThreads)
    products_settle(const __grid_constant__ SegmentProblem problem, int64_t num_outputs,
                           uint32_t* pool,  // [gridDim.x, pool_words]
                           int64_t pool_words) {
  __shared__ unsigned unsettled[kSettleThreads];
  __shared__ uint32_t words[kSettleThreads][kMergeWords];
  alignas(ExactProduct) __shared__ unsigned char products[kSettleThreads][sizeof(ExactProduct)];
  const ProductSettler<T> settler{problem, words, products, pool + blockIdx.x * pool_words, pool_words};
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t num_groups = (num_outputs + 31) / 32;
  for (int64_t tile = blockIdx.x * int64_t{kSettleThreads}; tile < num_groups; tile += gridDim.x * int64_t{kSettleThreads}) {
    const unsigned mine = tile + thread < num_groups ? problem.unsettled[tile + thread] : 0;
    if (!__syncthreads_or(mine != 0)) continue;
    unsettled[thread] = mine;
    __syncthreads();
    for (int group = 0; group < kSettleThreads; ++group) {
      for (unsigned rest = unsettled[group]; rest != 0; rest &= rest - 1) {
        settler.settle(32 * (tile + group) + __ffs(static_cast<int>(rest)) - 1);
      }
    }
    __syncthreads();
  }
}

}  // namespace reprocuda
