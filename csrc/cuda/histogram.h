// Histograms on the device.
#pragma once

#include "../problems/histogram.h"
#include "context.h"

namespace reprocuda::cuda {

// keys[i] is the bin of point i, or num_bins for one that lies in none. Queues one kernel. Both throw std::runtime_error for
// more dimensions than a kernel takes (32), and when a launch fails.
void histogram_keys(const Histogram& problem, int64_t* keys, const Context& context);

// counts[k] is how many points fall into bin k. Queues a clearing and a kernel.
void histogram_counts(const Histogram& problem, int64_t* counts, const Context& context);

}  // namespace reprocuda::cuda
