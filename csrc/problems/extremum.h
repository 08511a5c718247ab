// The canonical problem of a maximum or minimum with its position: scatter_max and scatter_min.
#pragma once

#include "../numerics/dtype.h"

namespace reprocuda {

// out[o, t, f] = the largest (or smallest) of self[o, t, f] and src[o, i, f] over all i with index[o, i, f] == t, and
// arg[o, t, f] = the smallest such i whose number it is. Where self is as large, or there is no such i, self stands and arg is
// num_rows; without self, 0 stands. +0 is larger than -0, and a NaN wins over all numbers.
struct Extremum {
  Dtype dtype = Dtype::kFloat32;
  bool largest = true;
  void* out = nullptr;            // [outer, num_targets, inner]
  int64_t* arg = nullptr;         // [outer, num_targets, inner]
  const void* self = nullptr;     // [outer, num_targets, inner] or nullptr
  const void* src = nullptr;      // [outer, num_rows, inner]
  const void* index = nullptr;    // outer, num_rows, inner, by its strides; 0 where it does not change
  bool index_is_int64 = true;
  int64_t outer_stride = 0;
  int64_t row_stride = 1;
  int64_t inner_stride = 0;
  int64_t outer = 1;
  int64_t num_targets = 0;
  int64_t num_rows = 0;
  int64_t inner = 1;

  // Whether it is one number a row, and the index one after the other.
  bool is_column() const { return inner == 1 && inner_stride == 0 && row_stride == 1; }

  // Of the elements of `index` as it lies in memory.
  int64_t num_indices() const {
    const bool none = outer * num_rows * inner == 0;
    return none ? 0 : (outer_stride == 0 ? 1 : outer) * num_rows * (inner_stride == 0 ? 1 : inner);
  }
};

}  // namespace reprocuda
