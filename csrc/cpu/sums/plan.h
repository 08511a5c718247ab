// Grouping rows by target, the first half of the rows algorithm and the whole of a SegmentPlan.
//
// The grouping is stable. Cost: nothing but a look at the index when it is sorted; one counting sort while the counters
// of all workers are few; else a cut into ranges of targets first and a counting or radix sort inside each range, so that
// counters stay in cache. Where targets outnumber rows by far, segments without rows are not listed at all.
#pragma once

#include <cstdint>

#include "../workspace.h"

namespace reprocuda::cpu {

// Segment s holds rows permutation[offsets[s] .. offsets[s + 1]) and belongs to targets[s].
template <class Position>
struct Grouping {
  const Position* permutation = nullptr;  // [num_rows]; nullptr: rows in their own order
  const Position* offsets = nullptr;      // [num_segments + 1]
  const Position* targets = nullptr;      // [num_segments]; nullptr: segment s belongs to target s, empty ones listed
  const double* weights = nullptr;        // [num_rows] factor of the row at each position; nullptr: one for all, alpha
  int64_t num_segments = 0;
  int64_t num_rows = 0;

  int64_t target(int64_t segment) const { return targets == nullptr ? segment : targets[segment]; }
  int64_t row(int64_t position) const { return permutation == nullptr ? position : permutation[position]; }
};

// A grouping with the memory it lives in.
template <class Position>
struct OwnedGrouping : Grouping<Position> {
  Workspace memory;
  int64_t first_bad = -1;  // position of the first index out of range; the grouping is empty then
};

// Position must hold num_rows and num_targets.
template <class Index, class Position>
OwnedGrouping<Position> group_rows(const Index* index, int64_t num_rows, int64_t num_targets);

// The same into arrays of the caller, all targets listed. Returns the position of the first bad index, or -1.
template <class Index>
int64_t group_rows_into(const Index* index, int64_t num_rows, int64_t num_targets, int64_t* permutation, int64_t* offsets);

// The same by an index of either type, for a SegmentPlan; then the outputs are unspecified.
int64_t build_plan(
    const void* index,        // [num_rows] int32 or int64
    bool index_is_int64,
    int64_t num_rows,
    int64_t num_targets,
    int64_t* permutation,     // [num_rows]
    int64_t* offsets);        // [num_targets + 1]

}  // namespace reprocuda::cpu
