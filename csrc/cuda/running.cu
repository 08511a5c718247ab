#include "running.h"

#include "../kernels/running.cuh"
#include "dispatch.h"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

template <class Op, class T>
void run(const RunningScan& problem, const Context& context) {
  using State = typename Op::State;
  const RunningShape shape{problem.outer, problem.length, problem.inner};
  const T* in = static_cast<const T*>(problem.in);
  T* out = static_cast<T*>(problem.out);
  const int64_t slices = shape.outer * shape.inner;
  const int64_t blocks = slices * shape.num_blocks();
  const auto grid = [&](int64_t items) { return blocks_for(items, kRunningThreads, int64_t{16} * context.num_sms); };
  State* states = nullptr;
  State* groups = nullptr;
  if (shape.num_blocks() > 1) {
    states = context.temporary<State>(blocks);
    launch(running_totals<Op, T>, grid(blocks), kRunningThreads, 0, context.stream, shape, in, states);
    if (shape.num_groups() > 1) groups = context.temporary<State>(slices * shape.num_groups());
    launch(running_carries<Op>, grid(slices * shape.num_groups()), kRunningThreads, 0, context.stream, shape, states, groups);
    if (groups != nullptr) launch(running_groups<Op>, grid(slices), kRunningThreads, 0, context.stream, shape, groups);
  }
  launch(running_prefixes<Op, T>, grid(blocks), kRunningThreads, 0, context.stream, shape, in, out, states, groups);
}

}  // namespace

void running(const RunningScan& problem, const Context& context) {
  if (problem.outer * problem.length * problem.inner == 0) return;
  if (!is_floating_point(problem.dtype)) {
    return dispatch_integer(problem.dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, Boolean>) run<IntegerProduct, T>(problem, context);
    });
  }
  dispatch_float(problem.dtype, [&]<class T>() {
    if (problem.operation == Running::kLogSumExp) return run<LogSumExp, T>(problem, context);
    problem.is_complex ? run<ComplexProduct, T>(problem, context) : run<RealProduct, T>(problem, context);
  });
}

}  // namespace reprocuda::cuda
