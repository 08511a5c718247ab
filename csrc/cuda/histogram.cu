#include "histogram.h"

#include "../kernels/histogram.cuh"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

HistogramEdges edges_of(const Histogram& problem) {
  if (problem.num_dims > kMaxHistogramDims) {
    throw std::runtime_error("histogram(): on CUDA points have at most " + std::to_string(kMaxHistogramDims) +
                             " dimensions, got " + std::to_string(problem.num_dims));
  }
  HistogramEdges result = {};
  result.num_dims = static_cast<int>(problem.num_dims);
  result.num_bins = problem.num_bins;
  std::copy_n(problem.edges, problem.num_dims, result.edges);
  std::copy_n(problem.num_edges, problem.num_dims, result.num_edges);
  return result;
}

// Calls run(points, blocks).
template <class Run>
void with_points(const Histogram& problem, const Context& context, Run&& run) {
  const HistogramEdges edges = edges_of(problem);
  const unsigned blocks = blocks_for(problem.num_points, kHistogramThreads, int64_t{8} * context.num_sms);
  with_bins(problem, [&](auto element, auto search) {
    using T = decltype(element);
    run(PointBins<T, search.value>{edges, static_cast<const T*>(problem.points), problem.num_points}, blocks);
  });
}

}  // namespace

void histogram_keys(const Histogram& problem, int64_t* keys, const Context& context) {
  if (problem.num_points == 0) return;
  with_points(problem, context, [&](const auto& points, unsigned blocks) {
    launch(histogram_find_bins<std::decay_t<decltype(points)>>, blocks, kHistogramThreads, 0, context.stream, points, keys);
  });
}

void histogram_counts(const Histogram& problem, int64_t* counts, const Context& context) {
  memset_async(counts, 0, static_cast<size_t>(problem.num_bins) * sizeof(int64_t), context.stream);
  if (problem.num_points == 0) return;
  with_points(problem, context, [&](const auto& points, unsigned blocks) {
    // Clearing and adding up a block's counts costs as much as so many points.
    const bool shared = problem.num_bins <= kMaxSharedBins && problem.num_bins <= problem.num_points &&
                        ceil_div(problem.num_points, blocks) < int64_t{1} << 31;
    const size_t bytes = shared ? static_cast<size_t>(problem.num_bins) * sizeof(unsigned) : 0;
    launch(histogram_count<std::decay_t<decltype(points)>>, blocks, kHistogramThreads, bytes, context.stream, points, shared,
           reinterpret_cast<unsigned long long*>(counts));
  });
}

}  // namespace reprocuda::cuda
