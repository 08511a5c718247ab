// The canonical problem of several index tensors that name one place.
#pragma once

#include <cstdint>

#include "dims.h"

namespace reprocuda {

// Several index tensors, broadcast against each other, turned into one row number:
// keys[e] = sum over k of wrap(index_k[e], dim_sizes[k]) * multipliers[k], where wrap adds the size to a negative index.
struct IndexLinearization {
  int num_indices = 0;
  const void* indices[kMaxDims] = {};              // each of `sizes`, strides[k]
  bool is_int64[kMaxDims] = {};
  int64_t strides[kMaxDims][kMaxDims] = {};
  int64_t dim_sizes[kMaxDims] = {};
  int64_t multipliers[kMaxDims] = {};
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t num_elements = 1;
  int64_t* keys = nullptr;                         // [num_elements]
};

}  // namespace reprocuda
