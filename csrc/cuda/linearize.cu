#include "linearize.h"

#include <algorithm>

#include "../kernels/linearize.cuh"

namespace reprocuda::cuda {

void linearize(const IndexLinearization& problem, const Context& context) {
  if (problem.num_elements == 0) {
    return;
  }
  constexpr int kThreads = 256;
  const int64_t wanted = (problem.num_elements + kThreads - 1) / kThreads;
  const int64_t resident = static_cast<int64_t>(context.num_sms) * 8;
  launch(linearize_kernel, Dim3(static_cast<unsigned>(std::min(wanted, resident))), Dim3(kThreads), 0, context.stream,
         problem);
}

}  // namespace reprocuda::cuda
