// What embedding bags need beside sums, on the CPU: the largest of each bag with its row, and products of row by row. Knows
// nothing of torch.
#pragma once

#include <cstdint>

#include "../problem.h"

namespace reprocuda::cpu {

// out[b, f] = the largest table[rows[p], f] over positions offsets[b] <= p < offsets[b + 1], and argmax[b, f] its row: that
// of the first position where several are equal. NaN is above every number, +0 above -0. A bag without rows gives 0 and 0.
// Guarantee: a function of the values and of the order within a bag. Cost: one read of every row named.
struct BagMaximum {
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;                // [num_bags, features]
  int64_t* argmax = nullptr;          // [num_bags, features]
  const void* table = nullptr;        // [num_rows, features]
  const int64_t* rows = nullptr;
  const int64_t* offsets = nullptr;   // [num_bags + 1]
  int64_t num_bags = 0;
  int64_t features = 0;
};
void bag_maximum(const BagMaximum& problem);

// out[p] = the exact sum of left[left_rows[p], f] * right[right_rows[p], f] over f, rounded once; +0 where right_rows[p] is
// `ignored`. Cost: one read of every row named; what the interval or compensated sum does not certify is summed again as
// integers.
struct RowProducts {
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;                // [num_products]
  const void* left = nullptr;         // [?, features]
  const int64_t* left_rows = nullptr;
  const void* right = nullptr;        // [?, features]
  const int64_t* right_rows = nullptr;
  int64_t ignored = -1;
  int64_t num_products = 0;
  int64_t features = 0;
};
void row_products(const RowProducts& problem);

}  // namespace reprocuda::cpu
