#include "histogram.h"

#include <algorithm>

#include "../numerics/bin_search.h"
#include "parallel.h"
#include "workspace.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kPointsPerWorker = 1 << 14;

// Calls visit(point, bin) for points [first, last); what lies in no bin has num_bins.
template <class T, BinSearch kSearch, class Visit>
void visit_bins(const Histogram& problem, int64_t first, int64_t last, Visit&& visit) {
  const T* const points = static_cast<const T*>(problem.points);
  if (problem.num_dims == 1) {
    const Bins<T, kSearch> bins(static_cast<const T*>(problem.edges[0]), problem.num_edges[0]);
    for (int64_t i = first; i < last; ++i) {
      const int64_t bin = bins.bin(points[i]);
      visit(i, bin < 0 ? problem.num_bins : bin);
    }
    return;
  }
  for (int64_t i = first; i < last; ++i) {
    visit(i, bin_of_point<T, kSearch>(points + i * problem.num_dims, problem.edges, problem.num_edges, problem.num_dims,
                                      problem.num_bins));
  }
}

}  // namespace

void histogram_keys(const Histogram& problem, int64_t* keys) {
  const int workers = workers_for(problem.num_points, kPointsPerWorker);
  with_bins(problem, [&](auto element, auto search) {
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
  with_bins(problem, [&](auto element, auto search) {
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
