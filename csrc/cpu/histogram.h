// Which bin of a histogram each point falls into, by torch's own rule, on the CPU. Knows nothing of torch.
//
// Guarantee: the bin is a function of the point and the edges alone, by the operations that torch does in the dtype of both;
// counts are integers. Cost: one read of the points; of counts, one set of them for each worker.
#pragma once

#include "../problems/histogram.h"

namespace reprocuda::cpu {

// keys[i] is the bin of point i, or num_bins for one that lies in none.
void histogram_keys(const Histogram& problem, int64_t* keys);

// counts[k] is how many points fall into bin k. Allocates.
void histogram_counts(const Histogram& problem, int64_t* counts);

}  // namespace reprocuda::cpu
