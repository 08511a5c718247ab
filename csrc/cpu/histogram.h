// Which bin of a histogram each point falls into, by torch's own rule, on the CPU. Knows nothing of torch.
//
// Guarantee: the bin is a function of the point and the edges alone, by the operations that torch does in the dtype of both;
// counts are integers. Cost: one read of the points; of counts, one set of them for each worker.
#pragma once

#include <cstdint>

#include "../problem.h"

namespace reprocuda::cpu {

enum class BinSearch : int8_t {
  kInterpolate,        // equal bins: by the point's place between the outer edges
  kInterpolateNearby,  // the same, then corrected by the edges beside it
  kBisect,             // any rising edges
};

struct Histogram {
  Dtype dtype = Dtype::kFloat32;
  BinSearch search = BinSearch::kInterpolate;
  const void* points = nullptr;              // [num_points, num_dims]
  int64_t num_points = 0;
  int64_t num_dims = 1;
  const void* const* edges = nullptr;        // [num_dims], each [num_edges[d]]
  const int64_t* num_edges = nullptr;        // [num_dims], at least 2 each
  int64_t num_bins = 0;                      // of all dimensions
};

// keys[i] is the bin of point i, or num_bins for one that lies in none.
void histogram_keys(const Histogram& problem, int64_t* keys);

// counts[k] is how many points fall into bin k. Allocates.
void histogram_counts(const Histogram& problem, int64_t* counts);

}  // namespace reprocuda::cpu
