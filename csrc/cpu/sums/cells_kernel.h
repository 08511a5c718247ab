// What the algorithms without a sort ask of their vector kernels, which exist once per instruction set (cells.inl).
//
// A cell holds the filtered reductions of one target, laid out as the kernels like it; a set is one cell for each target of a
// range. Cells are cleared to a value that no contribution leaves behind, so that a finished cell tells whether its target
// had any.
#pragma once

#include <cstdint>

#include "../../numerics/half.h"
#include "../../problems/accumulation.h"
#include "stages.h"

namespace reprocuda::cpu {

// An element on its way to the cells of its range of targets.
template <class T>
struct Entry {
  uint32_t key;  // from the start of the range
  T value;
};

// Contributions to add to one set of cells.
template <class T>
struct CellsJob {
  double* cells;           // [num_targets] cells
  int64_t num_targets;
  int64_t inner;
  Alpha alpha;
  bool complex_pairs;
  int64_t replica_stride;  // doubles between the kReplicas copies of a set; 0: one copy
};

inline constexpr int kReplicas = 4;

// Cells to round and store. Targets are those of the sets; pointers are at the first of them.
template <class T>
struct FinishJob {
  const double* sets;      // the first of `num_sets`
  int64_t num_sets;
  int64_t set_stride;      // doubles
  const T* self;           // [num_targets, inner] or nullptr
  bool include_self;       // whether it is a contribution, or only what untouched targets keep
  T* out;                  // [num_targets, inner]
  int64_t inner;
  FirstStage first_stage;
};

template <class T>
struct CellKernels {
  int64_t (*cell_doubles)(int64_t inner);
  // Whole cells, of `doubles` in all.
  void (*clear)(double* cells, int64_t doubles);
  // Add rows [first, last) of `src` to the cells that `keys` name. They return the position of the first key out of range,
  // where they stop, or -1.
  int64_t (*add_rows_int32)(const CellsJob<T>&, const int32_t* keys, const T* src, int64_t first, int64_t last);
  int64_t (*add_rows_int64)(const CellsJob<T>&, const int64_t* keys, const T* src, int64_t first, int64_t last);
  void (*add_entries)(double* cells, const Entry<T>* entries, int64_t count, const Alpha& alpha);
  // Merges the sets, adds `self`, stores what is certified and lists the other outputs of targets [first, last), as
  // target * inner + column. Returns their number.
  int64_t (*finish)(const FinishJob<T>&, int64_t first, int64_t last, int32_t* flagged);

  int64_t add_rows(const CellsJob<T>& job, const int32_t* keys, const T* src, int64_t first, int64_t last) const {
    return add_rows_int32(job, keys, src, first, last);
  }
  int64_t add_rows(const CellsJob<T>& job, const int64_t* keys, const T* src, int64_t first, int64_t last) const {
    return add_rows_int64(job, keys, src, first, last);
  }
};

// For the instruction set in use.
template <class T>
CellKernels<T> cell_kernels(Reduction reduction, bool include_self);

}  // namespace reprocuda::cpu
