#include "linearize.h"

#include "../kernels/linearize.cuh"
#include "grid.h"

namespace reprocuda::cuda {

void linearize(const IndexLinearization& problem, const Context& context) {
  if (problem.num_elements == 0) {
    return;
  }
  const unsigned blocks = blocks_for(problem.num_elements, kLinearizeThreads, int64_t{8} * context.num_sms);
  launch(linearize_index, blocks, kLinearizeThreads, 0, context.stream, problem);
}

}  // namespace reprocuda::cuda
