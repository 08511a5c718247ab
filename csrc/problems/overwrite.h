// The canonical problem of plain writes through an index.
#pragma once

#include <cstdint>

#include "dims.h"

namespace reprocuda {

// Plain writes through an index: out[place(e)] = src[e] for every element e of `sizes`, bit for bit, where
// place(e) = sum over d != dim of coordinate_d(e) * out_strides[d], plus index[e] * out_strides[dim].
// Of several elements with one place that with the largest coordinate along `dim` stands. Elements that differ in any other
// coordinate have different places: whoever fills this in sees to it. Strides count elements and may be 0 in src (a value
// that is broadcast) and index (rows).
struct Overwrite {
  int element_bytes = 1;          // 1, 2, 4, 8 or 16
  void* out = nullptr;            // out_strides; keeps what nothing is written over
  const void* src = nullptr;      // sizes, src_strides
  const void* index = nullptr;    // sizes, index_strides
  bool index_is_int64 = true;
  bool wraps = false;             // a negative index counts from the end
  int ndim = 0;                   // at least 1
  int dim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t src_strides[kMaxDims] = {};
  int64_t index_strides[kMaxDims] = {};
  int64_t out_strides[kMaxDims] = {};
  int64_t dim_size = 0;           // bound of the index
  int64_t num_elements = 0;

  // No two elements have one place.
  bool has_no_duplicates() const { return sizes[dim] <= 1; }
};

}  // namespace reprocuda
