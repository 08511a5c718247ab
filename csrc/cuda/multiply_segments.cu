// Products over sorted segments: the kernels of sums with another state, one column a lane, and the last stage.
#include "../kernels/product_segments.cuh"

#include "dispatch.h"
#include "reduce_segments.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kMostSettlers = 32;  // blocks; each has a share of the pool
constexpr int64_t kPoolWords = kMaxPartialBytes / static_cast<int64_t>(sizeof(uint32_t));

template <class T>
void multiply(SegmentProblem problem, int64_t outer, const Context& context) {
  const int64_t num_outputs = outer * problem.num_targets * problem.inner;
  const int64_t groups = ceil_div(num_outputs, 32);
  problem.unsettled = context.temporary<unsigned>(groups);
  memset_async(problem.unsettled, 0, static_cast<size_t>(groups) * sizeof(unsigned), context.stream);
  detail::reduce<T, 1, Product>(problem, outer, context);
  const unsigned settlers = blocks_for(groups, kSettleThreads, kMostSettlers);
  constexpr int64_t kFewest = ExactProduct::kSmallestCapacity + ExactProduct::kSpareWords;
  const int64_t words = std::clamp(exact_product_words<T>(problem.num_rows + 1), kFewest, kPoolWords / settlers);
  uint32_t* pool = context.temporary<uint32_t>(settlers * words);
  launch(products_settle<T>, settlers, kSettleThreads, 0, context.stream, problem, num_outputs, pool, words);
}

}  // namespace

void multiply_segments(Dtype dtype, int64_t outer, const SegmentProblem& problem, const Context& context) {
  dispatch_float(dtype, [&]<class T>() { multiply<T>(problem, outer, context); });
}

}  // namespace reprocuda::cuda
