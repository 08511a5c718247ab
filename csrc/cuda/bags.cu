#include "bags.h"

#include <bit>
#include <stdexcept>

#include "../kernels/bags.cuh"
#include "dispatch.h"
#include "grid.h"
#include "sorted.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kBlocksPerSm = 16;

template <class T>
struct OrderOf {
  using type = Float32Order;
};
template <>
struct OrderOf<Half> {
  using type = Float16Order;
};
template <>
struct OrderOf<BFloat16> {
  using type = BFloat16Order;
};
template <>
struct OrderOf<double> {
  using type = Float64Order;
};

}  // namespace

// Bags are segments whose rows are where the bags say.
void bag_sum(const BagSum& problem, const Context& context) {
  if (problem.num_bags == 0 || problem.features == 0) return;
  if (problem.weights != nullptr && !problem.weights_are_wide) throw std::runtime_error("reprocuda: weights must be doubles");
  SegmentProblem segments{};
  segments.src = problem.table;
  segments.out = problem.out;
  segments.offsets = problem.offsets;
  segments.permutation = problem.rows;
  segments.permutation_bytes = sizeof(int64_t);
  segments.num_sources = problem.num_table_rows;
  segments.num_rows = problem.num_rows;
  segments.num_targets = problem.num_bags;
  segments.inner = problem.features;
  segments.ignored_target = -1;
  segments.mean = problem.mean;
  segments.weight = make_weight(Alpha{}, false);
  segments.weight.is_one = problem.weights == nullptr;
  segments.weights = static_cast<const double*>(problem.weights);
  segments.row_bytes = narrow_row_bytes(problem.num_table_rows, problem.features, problem.dtype);
  segments.force_exact = exact_is_forced();
  reduce_segments(problem.dtype, 1, segments, context);
}

void bag_maximum(const BagMaximum& problem, const Context& context) {
  if (problem.num_bags == 0 || problem.features == 0) return;
  const int lanes = problem.features >= 32 ? 32 : static_cast<int>(std::bit_ceil(static_cast<unsigned>(problem.features)));
  const int64_t tasks = problem.num_bags * ceil_div(problem.features, lanes);
  dispatch_float(problem.dtype, [&]<class T>() {
    launch(bags_maximum<typename OrderOf<T>::type>, blocks_for(tasks, 1, kBlocksPerSm * context.num_sms), kBagThreads, 0,
           context.stream, problem, lanes);
  });
}

void row_products(const RowProducts& problem, const Context& context) {
  if (problem.num_products == 0) return;
  dispatch_float(problem.dtype, [&]<class T>() {
    const unsigned blocks = blocks_for(problem.num_products, kBagThreads / 32, kBlocksPerSm * context.num_sms);
    launch(bags_row_products<T>, blocks, kBagThreads, 0, context.stream, problem, exact_is_forced());
  });
}

}  // namespace reprocuda::cuda
