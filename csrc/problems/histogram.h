// The canonical problem of a histogram: in which bin each point lies.
#pragma once

#include "../numerics/dtype.h"

namespace reprocuda {

enum class BinSearch : int8_t {
  kInterpolate,        // equal bins: by the point's place between the outer edges
  kInterpolateNearby,  // the same, then corrected by the edges beside it
  kBisect,             // any rising edges
};

struct Histogram {
  Dtype dtype = Dtype::kFloat32;
  BinSearch search = BinSearch::kInterpolate;
  const void* points = nullptr;        // [num_points, num_dims]
  int64_t num_points = 0;
  int64_t num_dims = 1;
  const void* const* edges = nullptr;  // [num_dims] on the host, each [num_edges[d]]
  const int64_t* num_edges = nullptr;  // [num_dims] on the host, at least 2 each
  int64_t num_bins = 0;                // of all dimensions
};

}  // namespace reprocuda
