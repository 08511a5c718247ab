// The bin of a point, by torch's own operations in the dtype of points and edges: a function of these alone.
#pragma once

#include <type_traits>

#include "../problems/histogram.h"
#include "half.h"
#include "rounding.h"

namespace reprocuda {

// The 16-bit formats have no arithmetic of their own: torch computes in float32 and rounds every result.
template <class T>
struct RoundedArithmetic {
  using Value = float;
  static REPROCUDA_HD float value(T x) { return to_float(x); }
  static REPROCUDA_HD float rounded(float x) { return to_float(round_to<T>(x)); }
};
template <>
struct RoundedArithmetic<float> {
  using Value = float;
  static REPROCUDA_HD float value(float x) { return x; }
  static REPROCUDA_HD float rounded(float x) { return x; }
};
template <>
struct RoundedArithmetic<double> {
  using Value = double;
  static REPROCUDA_HD double value(double x) { return x; }
  static REPROCUDA_HD double rounded(double x) { return x; }
};

// The bins between the rising edges of one dimension.
template <class T, BinSearch kSearch>
class Bins {
  using A = RoundedArithmetic<T>;
  using Value = typename A::Value;

 public:
  REPROCUDA_HD Bins(const T* edges, int64_t num_edges)
      : edges_(edges),
        num_edges_(num_edges),
        first_(A::value(edges[0])),
        last_(A::value(edges[num_edges - 1])),
        bins_(A::rounded(static_cast<Value>(num_edges - 1))),
        width_(A::rounded(last_ - first_)) {}

  // -1: in none. The last bin holds both its edges.
  REPROCUDA_HD int64_t bin(T point) const {
    const Value x = A::value(point);
    if (!(x >= first_ && x <= last_)) return -1;
    int64_t at = 0;
    if constexpr (kSearch == BinSearch::kBisect) {
      at = last_not_above(x, 0, num_edges_);
    } else {
      at = interpolated(A::rounded(x - first_));
      if constexpr (kSearch == BinSearch::kInterpolateNearby) {
        at = last_not_above(x, at > 0 ? at - 1 : 0, at + 2 < num_edges_ ? at + 2 : num_edges_);
      }
    }
    if (at == num_edges_ - 1) --at;
    return at < num_edges_ - 1 ? at : -1;
  }

  REPROCUDA_HD int64_t num_bins() const { return num_edges_ - 1; }

 private:
  // Where edges are equal there is nothing to divide by: 0, as what torch makes of 0 / 0.
  REPROCUDA_HD int64_t interpolated(Value distance) const {
    Value at = A::rounded(A::rounded(distance * bins_) / width_);
    if (!(at <= bins_)) at = A::rounded(A::rounded(distance / width_) * bins_);  // the product may have overflown
    return at <= bins_ ? static_cast<int64_t>(at) : 0;
  }

  REPROCUDA_HD int64_t last_not_above(Value x, int64_t begin, int64_t end) const {
    while (begin < end) {
      const int64_t middle = begin + (end - begin) / 2;
      if (x < A::value(edges_[middle])) {
        end = middle;
      } else {
        begin = middle + 1;
      }
    }
    return begin - 1;
  }

  const T* edges_;
  int64_t num_edges_;
  Value first_;
  Value last_;
  Value bins_;
  Value width_;
};

// The number of a point's bin among those of all dimensions, or num_bins if it lies in none.
template <class T, BinSearch kSearch>
REPROCUDA_HD int64_t bin_of_point(const T* point, const void* const* edges, const int64_t* num_edges, int64_t num_dims,
                                  int64_t num_bins) {
  int64_t key = 0;
  for (int64_t d = 0; d < num_dims; ++d) {
    const Bins<T, kSearch> bins(static_cast<const T*>(edges[d]), num_edges[d]);
    const int64_t bin = bins.bin(point[d]);
    if (bin < 0) return num_bins;
    key = key * bins.num_bins() + bin;
  }
  return key;
}

// Calls function(std::integral_constant<BinSearch, ...>{}).
template <class Function>
void with_search(BinSearch search, Function&& function) {
  using enum BinSearch;
  switch (search) {
    case kInterpolate: return function(std::integral_constant<BinSearch, kInterpolate>{});
    case kInterpolateNearby: return function(std::integral_constant<BinSearch, kInterpolateNearby>{});
    default: return function(std::integral_constant<BinSearch, kBisect>{});
  }
}

// Calls function(T{}, search) for the problem's dtype and search.
template <class Function>
void with_bins(const Histogram& problem, Function&& function) {
  with_search(problem.search, [&](auto search) {
    switch (problem.dtype) {
      case Dtype::kFloat16: return function(Half{}, search);
      case Dtype::kBFloat16: return function(BFloat16{}, search);
      case Dtype::kFloat32: return function(float{}, search);
      default: return function(double{}, search);
    }
  });
}

}  // namespace reprocuda
