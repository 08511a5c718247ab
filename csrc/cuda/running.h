// Running products and log-sum-exps on the device.
#pragma once

#include "../problems/running.h"
#include "context.h"

namespace reprocuda::cuda {

// Queues up to 4 kernels. Of temporary memory it takes 8 bytes (16: complex numbers, log-sum-exps) a block of 64 elements.
void running(const RunningScan& problem, const Context& context);

}  // namespace reprocuda::cuda
