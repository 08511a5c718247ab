// Several index tensors to one row number, on the device.
#pragma once

#include "../problems/linearization.h"
#include "context.h"

namespace reprocuda::cuda {

// Queues the kernel that fills problem.keys.
void linearize(const IndexLinearization& problem, const Context& context);

}  // namespace reprocuda::cuda
