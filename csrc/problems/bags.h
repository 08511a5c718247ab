// The canonical problems of embedding bags: sums and maxima of the rows that bags name, and products of row by row.
#pragma once

#include "../numerics/dtype.h"

namespace reprocuda {

// Which rows of a table lie in which bag.
struct BagRows {
  const void* table = nullptr;        // [num_table_rows, features]
  int64_t num_table_rows = 0;
  int64_t features = 0;
  const int64_t* rows = nullptr;      // [num_rows], bag by bag
  int64_t num_rows = 0;
  const int64_t* offsets = nullptr;   // [num_bags + 1]
  int64_t num_bags = 0;
};

// out[b, f] = the sum, or mean, of weights[p] * table[rows[p], f] over positions offsets[b] <= p < offsets[b + 1], exact and
// rounded once. A bag without rows gives 0.
struct BagSum : BagRows {
  Dtype dtype = Dtype::kFloat32;      // floating
  void* out = nullptr;                // [num_bags, features]
  bool mean = false;
  const void* weights = nullptr;      // [num_rows] or nullptr
  bool weights_are_wide = false;      // whether they are doubles, which fp32 holds unless dtype is fp64; else of `dtype`
};

// out[b, f] = the largest table[rows[p], f] over positions offsets[b] <= p < offsets[b + 1], and argmax[b, f] its row: that
// of the first position where several are equal. NaN is above every number, +0 above -0. A bag without rows gives 0 and 0.
struct BagMaximum : BagRows {
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;                // [num_bags, features]
  int64_t* argmax = nullptr;          // [num_bags, features]
};

// out[p] = the exact sum of left[left_rows[p], f] * right[right_rows[p], f] over f, rounded once; +0 where right_rows[p] is
// `ignored`.
struct RowProducts {
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;                // [num_products]
  const void* left = nullptr;         // [num_left, features]
  const int64_t* left_rows = nullptr;
  const void* right = nullptr;        // [num_right, features]
  const int64_t* right_rows = nullptr;
  int64_t num_left = 0;
  int64_t num_right = 0;
  int64_t ignored = -1;
  int64_t num_products = 0;
  int64_t features = 0;
};

}  // namespace reprocuda
