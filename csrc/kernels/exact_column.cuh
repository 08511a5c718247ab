// The exact fallback: sums one column of a range of rows in integers and rounds once.
//
// Guarantee: the exact sum (or mean), rounded once, of every contribution in the range and of self; nothing depends on how
// the rows are shared between the threads of a team. The superaccumulator of the format is never in memory: a first pass
// finds which windows of six limbs the contributions touch, then each such window is summed in registers by a pass of its
// own, and the windows go through a LimbScan from the lowest up.
// Cost: passes over the data, one more than the windows touched; most data touch one to three.
#pragma once

#include "limb_scan.cuh"
#include "segment_problem.cuh"

namespace reprocuda {

inline constexpr int kWindow = 6;

// How the exact terms of a dtype fall into limbs; emit(limb, amount), |amount| < 2^32. Returns ExactFlags.
template <class T>
struct ExactTerms {
  using Format = Fp32Products;
  template <class Emit>
  static __device__ __forceinline__ uint32_t split(double weight, double x, Emit&& emit) {
    return split_term<Format>(weight * x, emit);
  }
};

template <>
struct ExactTerms<double> {
  using Format = Fp64Products;
  template <class Emit>
  static __device__ __forceinline__ uint32_t split(double weight, double x, Emit&& emit) {
    return split_product(weight, x, emit);
  }
};

template <class T>
inline constexpr int kNumLimbs = ExactTerms<T>::Format::kLimbs;

struct Survey {
  uint32_t windows = 0;  // bit w: some limb of window w is touched
  uint32_t flags = 0;
};

// What the terms touch; visit(add) calls add(weight, x) for each.
template <class T, class Visit>
__device__ __forceinline__ Survey survey_terms(Visit&& visit) {
  static_assert(kNumLimbs<T> <= 32 * kWindow, "a bit for each window");
  Survey result;
  visit([&](double weight, double x) {
    result.flags |= ExactTerms<T>::split(weight, x, [&](int limb, int64_t amount) {
      if (amount != 0) result.windows |= 1u << (limb / kWindow);
    });
  });
  return result;
}

// Limbs first .. first + kWindow - 1 of their sum.
template <class T, class Visit>
__device__ __forceinline__ void sum_window_of_terms(Visit&& visit, int first, int64_t (&limbs)[kWindow]) {
#pragma unroll
  for (int k = 0; k < kWindow; ++k) limbs[k] = 0;
  visit([&](double weight, double x) {
    ExactTerms<T>::split(weight, x, [&](int limb, int64_t amount) {
#pragma unroll
      for (int k = 0; k < kWindow; ++k) limbs[k] += limb == first + k ? amount : 0;
    });
  });
}

// The contributions to one output.
template <class T>
struct Column {
  using Element = T;

  const SegmentProblem& problem;
  const T* src;      // [num_rows, inner]
  const T* self;     // the element of self, or nullptr
  int64_t column;

  // Calls add(weight, x) for the rows begin + rank, begin + rank + size, ... before end.
  template <class Add>
  __device__ __forceinline__ void visit(int64_t begin, int64_t end, int rank, int size, Add&& add) const {
    if (self != nullptr && rank == 0) add(1.0, to_double(*self));
    // Kept small: these loops seldom run, but every kernel carries them.
#pragma unroll 1
    for (int64_t i = begin + rank; i < end; i += size) {
      const int64_t at = source_row(problem, i) * problem.inner + column;
      double weight = problem.weights == nullptr ? problem.weight.real : __ldg(problem.weights + i);
      double x = to_double(src[at]);
#pragma unroll 1
      for (int part = 0;; ++part) {
        add(weight, x);
        if (!problem.weight.is_complex || part == 1) break;
        weight = (column & 1) != 0 ? problem.weight.imag : -problem.weight.imag;
        x = to_double(src[at ^ 1]);
      }
    }
  }

  __device__ Survey survey(int64_t begin, int64_t end, int rank, int size) const {
    return survey_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); });
  }

  __device__ void sum_window(int64_t begin, int64_t end, int rank, int size, int first, int64_t (&limbs)[kWindow]) const {
    sum_window_of_terms<T>([&](auto&& add) { visit(begin, end, rank, size, add); }, first, limbs);
  }
};

// Who shares the rows of a sum: one lane, or all lanes of a warp, who then all know every result.
struct Team {
  bool is_warp;

  __device__ __forceinline__ int size() const { return is_warp ? 32 : 1; }
  __device__ __forceinline__ int rank() const { return is_warp ? static_cast<int>(threadIdx.x % 32) : 0; }

  __device__ __forceinline__ uint32_t any(uint32_t bits) const {
    for (int step = size() / 2; step > 0; step /= 2) bits |= __shfl_xor_sync(0xffffffffu, bits, step);
    return bits;
  }
  __device__ __forceinline__ int64_t sum(int64_t value) const {
    for (int step = size() / 2; step > 0; step /= 2) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
  }
};

// The column's exact sum over rows [begin, end), divided by `count`. Fewer than 2^29 rows.
// A Column, or anything else with an Element, a survey and a sum_window.
template <class AnyColumn>
__attribute__((noinline)) __device__ typename AnyColumn::Element sum_exactly(const AnyColumn& column, int64_t begin,
                                                                            int64_t end, int64_t count, Team team) {
  using T = typename AnyColumn::Element;
  Survey survey = column.survey(begin, end, team.rank(), team.size());
  survey.windows = team.any(survey.windows);
  survey.flags = team.any(survey.flags);
  LimbScan scan;
#pragma unroll 1
  for (int first = 0; first < kNumLimbs<T>; first += kWindow) {
    const bool touched = ((survey.windows >> (first / kWindow)) & 1) != 0;
    if (!touched && !scan.carrying()) continue;
    int64_t limbs[kWindow] = {};
    if (touched) {
      int64_t window[kWindow];
      column.sum_window(begin, end, team.rank(), team.size(), first, window);
#pragma unroll
      for (int k = 0; k < kWindow; ++k) limbs[k] = window[k];
    }
#pragma unroll 1
    for (int k = 0; k < kWindow; ++k) scan.push(first + k, team.sum(limbs[k]));
  }
  constexpr int kPushed = (kNumLimbs<T> + kWindow - 1) / kWindow * kWindow;
  return scan.template round<T, typename ExactTerms<T>::Format>(kPushed, survey.flags, count);
}

}  // namespace reprocuda
