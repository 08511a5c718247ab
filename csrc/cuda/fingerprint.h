// The fingerprint of a tensor's bits, on the device.
#pragma once

#include "../problems/fingerprint.h"
#include "context.h"

namespace reprocuda::cuda {

// Queues the kernels, one or two, that write digest [2].
void fingerprint(const FingerprintProblem& problem, int64_t* digest, const Context& context);

}  // namespace reprocuda::cuda
