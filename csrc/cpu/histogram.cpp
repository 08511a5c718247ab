#include "histogram.h"

#include <algorithm>
#include <cmath>

#include "../numerics/half.h"
#include "../numerics/rounding.h"
#include "parallel.h"
#include "workspace.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kPointsPerWorker = 1 << 14;

// The 16-bit formats have no arithmetic of their own: torch computes in float32 and rounds every result.
template <class T>
struct Arithmetic {
  static float value(T x) { return to_float(x); }
  static float rounded(float x) { return to_float(round_to<T>(x)); }
};
template <>
struct Arithmetic<float> {
  static float value(float x) { return x; }
  static float rounded(float x) { return x; }
};
template <>
struct Arithmetic<double> {
  static double value(double x) { return x; }
  static double rounded(double x) { return x; }
};

template <class T, BinSearch kSearch>
class Bins {
 public:
  using A = Arithmetic<T>;
  using Value = decltype(A::value(T{}));

  Bins(const Histogram& problem, int64_t dim)
      : edges_(static_cast<const T*>(problem.edges[dim])),
        num_edges_(problem.num_edges[dim]),
        first_(A::value(edges_[0])),
        last_(A::value(edges_[num_edges_ - 1])),
        bins_(A::rounded(static_cast<Value>(num_edges_ - 1))),
        width_(A::rounded(last_ - first_)) {}

  // -1: in none. The last bin holds both its edges.
  int64_t bin(T point) const {
    const Value x = A::value(point);
    if (!(x >= first_ && x <= last_)) return -1;
    int64_t at = 0;
    if constexpr (kSearch == BinSearch::kBisect) {
      at = last_not_above(x, 0, num_edges_);
    } else {
      at = static_cast<int64_t>(A::rounded(A::rounded(A::rounded(x - first_) * bins_) / width_));
      if constexpr (kSearch == BinSearch::kInterpolateNearby) {
        at = last_not_above(x, std::max<int64_t>(0, at - 1), std::min(at + 2, num_edges_));
      }
    }
    return at == num_edges_ - 1 ? at - 1 : at;
  }

  int64_t num_bins() const { return num_edges_ - 1; }

 private:
  int64_t last_not_above(Value x, int64_t begin, int64_t end) const {
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

// Calls visit(point, bin) for points [first, last); what lies in no bin has num_bins.
template <class T, BinSearch kSearch, class Visit>
void visit_bins(const Histogram& problem, int64_t first, int64_t last, Visit&& visit) {
  const T* const points = static_cast<const T*>(problem.points);
  if (problem.num_dims == 1) {
    const Bins<T, kSearch> bins(problem, 0);
    for (int64_t i = first; i < last; ++i) {
      const int64_t bin = bins.bin(points[i]);
      visit(i, bin < 0 || bin >= problem.num_bins ? problem.num_bins : bin);
    }
    return;
  }
  for (int64_t i = first; i < last; ++i) {
    int64_t key = 0;
    for (int64_t d = 0; d < problem.num_dims; ++d) {
      const Bins<T, kSearch> bins(problem, d);
      const int64_t bin = bins.bin(points[i * problem.num_dims + d]);
      if (bin < 0 || bin >= bins.num_bins()) {
        key = problem.num_bins;
        break;
      }
      key = key * bins.num_bins() + bin;
    }
    visit(i, key);
  }
}

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
void with_kind(const Histogram& problem, Function&& function) {
  with_search(problem.search, [&](auto search) {
    switch (problem.dtype) {
      case Dtype::kFloat16: return function(Half{}, search);
      case Dtype::kBFloat16: return function(BFloat16{}, search);
      case Dtype::kFloat32: return function(float{}, search);
      default: return function(double{}, search);
    }
  });
}

}  // namespace

void histogram_keys(const Histogram& problem, int64_t* keys) {
  const int workers = workers_for(problem.num_points, kPointsPerWorker);
  with_kind(problem, [&](auto element, auto search) {
    run_tasks(workers, workers, [&](int, int64_t part) {
      visit_bins<decltype(element), search.value>(problem, part_begin(problem.num_points, workers, part),
                                                  part_begin(problem.num_points, workers, part + 1),
                                                  [&](int64_t i, int64_t bin) { keys[i] = bin; });
    });
  });
}

void histogram_counts(const Histogram& problem, int64_t* counts) {
  // A set of counts costs as much as so many points.
  const int workers = workers_for(problem.num_points, std::max(kPointsPerWorker, problem.num_bins));
  const int64_t size = problem.num_bins + 1;  // and what lies in no bin
  int64_t* sets = nullptr;
  const Workspace workspace = lease([&](Layout& layout) { sets = layout.take<int64_t>(workers * size); });
  with_kind(problem, [&](auto element, auto search) {
    run_tasks(workers, workers, [&](int, int64_t part) {
      int64_t* const mine = sets + part * size;
      std::fill_n(mine, size, 0);
      visit_bins<decltype(element), search.value>(problem, part_begin(problem.num_points, workers, part),
                                                  part_begin(problem.num_points, workers, part + 1),
                                                  [&](int64_t, int64_t bin) { ++mine[bin]; });
    });
  });
  std::copy_n(sets, problem.num_bins, counts);
  for (int worker = 1; worker < workers; ++worker) {
    for (int64_t k = 0; k < problem.num_bins; ++k) counts[k] += sets[worker * size + k];
  }
}

}  // namespace reprocuda::cpu
