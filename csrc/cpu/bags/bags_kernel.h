// What sums over bags ask of their vector kernels, which exist once per instruction set (bags.inl).
#pragma once

#include <cstdint>

#include "../../numerics/half.h"

namespace reprocuda::cpu {

// Neighbouring bags. Sums of 16- or 32-bit floats wait in scratch memory until they are rounded.
template <class T>
struct BagBlock {
  const T* table;              // [?, features]
  int64_t features;
  const int64_t* rows;         // [num_rows] the table's rows, bag by bag
  int64_t num_rows;            // of all bags
  const int64_t* offsets;      // [num_bags + 1], of this block
  int64_t num_bags;
  const T* weights;            // [num_rows] or nullptr
  const double* wide_weights;  // [num_rows] or nullptr; at most one of the two, and not this one of float64
  bool mean;
  T* out;                      // [num_bags, features], of this block
  double* high;                // [num_bags, features]
  double* negated_low;         // [num_bags, features]
  bool* undecided;             // [num_bags], cleared
};

template <class T>
struct BagKernels {
  // Whether every row is one of the table's.
  bool (*within)(const int64_t* rows, int64_t count, int64_t num_table_rows);
  // Not of float64 or one column. Plain sums, the exact ones as long as no addition raises the inexact flag: rounded to `out`; those of
  // means to `high`, for finish() to take. Each row read once.
  void (*add)(const BagBlock<T>&);
  // Enclosing sums, to `high` and `negated_low`, in round-up mode, and to `out` where they are certain. Marks the bags that are
  // left to finish(). Of float64 compensated ones, in round-to-nearest mode, to `out` alone.
  void (*enclose)(const BagBlock<T>&);
  // Rounds and stores the sums of one bag, of which `high` is exact or both enclose, in round-up mode; those of float64 from the
  // table again. Returns how many columns it could not certify and left in `flagged`.
  int64_t (*finish)(const BagBlock<T>&, int64_t bag, bool exact, int32_t* flagged);
};

// For the instruction set in use.
template <class T>
BagKernels<T> bag_kernels();

}  // namespace reprocuda::cpu
