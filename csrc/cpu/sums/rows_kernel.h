// What the rows algorithm asks of its vector kernels, which exist once per instruction set (rows_kernel.inl).
#pragma once

#include <cstdint>

#include "../../numerics/half.h"
#include "../../problems/accumulation.h"
#include "plan.h"
#include "stages.h"

namespace reprocuda::cpu {

// Columns of one tile: its accumulators and eight source rows share the first-level cache.
template <class T>
inline constexpr int64_t kTileColumns = 1024;
template <>
inline constexpr int64_t kTileColumns<double> = 512;

// Doubles that hold the filtered sum of one output.
template <class T>
inline constexpr int kStateDoubles = 2;
template <>
inline constexpr int kStateDoubles<double> = 4;

// The same for the widest of all reductions.
inline constexpr int kMostStateDoubles = 5;

// A single column rounds this many segments at a time, from cells as cells_kernel.h has them.
inline constexpr int64_t kSegmentBatch = 256;

// One slice of the outer dimension, one tile of columns.
template <class T, class Position>
struct RowsJob {
  const T* src;            // [num_rows, inner]
  const T* self;           // [num_targets, inner] or nullptr: a contribution
  T* out;                  // [num_targets, inner]
  int64_t inner;
  int64_t first_column;
  int64_t columns;         // of the tile; at least 8 when inner is
  Grouping<Position> grouping;
  Alpha alpha;
  bool complex_pairs;
  Reduction reduction;
  bool include_self;       // else `self` is nullptr here, and what is untouched final already
  FirstStage first_stage;
  bool untouched_done;     // targets without contributions are final already
  int64_t ignored_target;

  // What the row at this position is multiplied by, where alpha is not one.
  double factor(int64_t position) const { return grouping.weights == nullptr ? alpha.real : grouping.weights[position]; }

  // What the reduction of `num_rows` rows is divided by.
  int64_t divisor(int64_t num_rows) const {
    return reduction == Reduction::kMean ? num_rows + (self == nullptr ? 0 : 1) : 1;
  }
};

// A worker's own memory.
struct RowsScratch {
  double* state;           // state_doubles * (kTileColumns + 8), and of kSegmentBatch + 8
  int32_t* flagged;        // [kTileColumns], and [kSegmentBatch]: columns of the tile that the filter did not certify
  int64_t* limbs;          // memory for the exact fallback
};

// Positions [begin, end) of the grouping. The segment that began before leaves its sum in `head`, the one that goes on
// behind in `tail`, [columns] states each; all others are finished.
struct RowsRange {
  int64_t begin;
  int64_t end;
  bool last;               // also finishes empty segments behind the last row
  double* head;
  double* tail;
};

// A segment cut by range ends: `num_parts` partial sums, `part_stride` doubles apart after the first.
struct SplitSegment {
  int64_t segment;
  const double* first_part;
  const double* other_parts;
  int64_t num_other_parts;
  int64_t part_stride;
};

template <class T, class Position>
struct RowsKernels {
  int state_doubles;  // that hold the filtered reduction of one output
  void (*run_range)(const RowsJob<T, Position>&, const RowsRange&, const RowsScratch&);
  // Returns how many columns it left in scratch.flagged for the exact fallback.
  int64_t (*merge)(const RowsJob<T, Position>&, const SplitSegment&, const RowsScratch&);
  // Sums only. For the exact fallback of 16- and 32-bit floats, in round-to-nearest mode: sums `columns` of positions
  // [first, last) in pairs of doubles, stores what is proven and returns how many columns it leaves, at the front of `columns`.
  int64_t (*sum_in_pairs)(const RowsJob<T, Position>&, int64_t first, int64_t last, int64_t target, int32_t* columns,
                          int64_t count);
  // Behind that: adds positions [first, last) to the bins [BinnedSum::kBins, columns] and
  // flags [columns] of `columns` columns from `column` of the tile on.
  void (*add_to_bins)(const RowsJob<T, Position>&, int64_t first, int64_t last, int64_t column, int64_t columns, int64_t* bins,
                      uint32_t* flags);
};

// For the instruction set in use.
template <class T, class Position>
RowsKernels<T, Position> rows_kernels(Reduction reduction);

}  // namespace reprocuda::cpu
