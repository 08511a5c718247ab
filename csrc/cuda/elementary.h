// exp and log on the device.
#pragma once

#include "../problems/elementary.h"
#include "context.h"

namespace reprocuda::cuda {

// Queues one kernel.
void map(const ElementaryMap& problem, const Context& context);

}  // namespace reprocuda::cuda
