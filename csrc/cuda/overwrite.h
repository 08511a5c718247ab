// Plain writes through an index, on the device.
#pragma once

#include "../problems/overwrite.h"
#include "context.h"

namespace reprocuda::cuda {

// Queues the kernels, three graph nodes at most. Throws std::runtime_error when temporary memory is refused or a launch fails.
void overwrite(const Overwrite& problem, const Context& context);

}  // namespace reprocuda::cuda
