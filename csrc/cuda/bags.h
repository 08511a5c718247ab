// Embedding bags on the device.
#pragma once

#include "../problems/bags.h"
#include "context.h"

namespace reprocuda::cuda {

// Each queues its kernels: one, or two for sums of more than a block's work. Rows and offsets out of range trap. Weights are
// wide. Throws std::runtime_error when temporary memory is refused or a launch fails.
void bag_sum(const BagSum& problem, const Context& context);
void bag_maximum(const BagMaximum& problem, const Context& context);
void row_products(const RowProducts& problem, const Context& context);

}  // namespace reprocuda::cuda
