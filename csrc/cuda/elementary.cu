#include "elementary.h"

#include "../kernels/elementary.cuh"
#include "dispatch.h"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

template <Elementary kFunction>
void run(const ElementaryMap& problem, const Context& context) {
  const unsigned blocks = blocks_for(problem.count, kElementaryThreads, int64_t{8} * context.num_sms);
  dispatch_float(problem.dtype, [&]<class T>() {
    launch(elementary_map<kFunction, T>, blocks, kElementaryThreads, 0, context.stream, static_cast<const T*>(problem.in),
           static_cast<T*>(problem.out), problem.count);
  });
}

}  // namespace

void map(const ElementaryMap& problem, const Context& context) {
  if (problem.count == 0) return;
  dispatch_elementary(problem.function, [&]<Elementary kFunction>() { run<kFunction>(problem, context); });
}

}  // namespace reprocuda::cuda
