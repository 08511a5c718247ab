// Prefix sums along one dimension, on the device. As all calls of accumulate.h: queued on the context's stream, never waited
// for, safe inside a CUDA graph; the kernels that are launched depend on the shape alone.
#pragma once

#include "../problems/scan.h"
#include "context.h"

namespace reprocuda::cuda {

void scan(const Scan& problem, const Context& context);

}  // namespace reprocuda::cuda
