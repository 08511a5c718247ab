// Sorted segments, the shared part: the problem as its two kernels see it, and how work is divided.
//
// The path: rows in sorted order with, after the last row of each target, one more item that stands for writing the target.
// Units are equal ranges of these items, so that neither one huge segment nor a million empty ones can leave a block without
// work or with too much. A target that ends in another unit than it begins in is split: every unit but the last leaves a
// tail partial of it, the last one its head partial, and a second kernel merges them.
#pragma once

#include <cstdio>

#include "element.cuh"

namespace reprocuda {

inline constexpr int kSegmentThreads = 256;
inline constexpr int kSegmentBlocksPerSm = 3;

struct SegmentProblem {
  const void* src;           // [outer, num_rows, inner]
  const void* self;          // [outer, num_targets, inner]: one more contribution, or nullptr; may be `out`
  const void* kept;          // likewise: what a target without contributions keeps; nullptr: +0
  void* out;                 // [outer, num_targets, inner]
  const int64_t* offsets;    // [num_targets + 1] into the sorted order
  const void* permutation;   // [num_rows] source rows in sorted order, or nullptr: the rows are sorted
  int permutation_bytes;     // of one entry: 4 or 8
  int64_t num_sources;       // a bound on its entries
  int64_t num_rows;
  int64_t num_targets;
  int64_t inner;
  int64_t ignored_target;    // -1: none
  Weight weight;
  const double* weights;     // [num_rows] real factors in the sorted order instead, where `weight` is not one; or nullptr
  uint32_t row_bytes;        // bytes of a source row, if they and every row number fit 32 bits; else 0
  bool mean;
  int own;                   // contributions that self is to the number of a mean's: 0 or 1
  bool force_exact;
  unsigned* unsettled;       // products: a bit for every output that they leave to products_settle

  // A block is one unit of one slice: `num_tiles` column tiles of each `outer`. A walker is a group of `lanes` threads.
  int lanes;                 // a power of two, at most 32
  unsigned num_tiles;
  unsigned num_slices;       // num_tiles * outer
  unsigned num_units;

  // For split targets only; nullptr when num_units is 1.
  void* partials;            // [num_units, num_slices, 2, columns of a tile] State<T>: heads, then tails
  int64_t* unit_targets;     // [num_units] the target in which a unit starts
  unsigned* arrivals;        // [num_units, num_slices] helpers that have delivered, counted where the first of them is
  int64_t* limbs;            // [limb slots, num_slices, columns of a tile, limbs + 1]
};

// The source row at a position of the sorted order.
__device__ __forceinline__ int64_t source_row(const SegmentProblem& problem, int64_t position) {
  if (problem.permutation == nullptr) return position;
  if (problem.permutation_bytes == 4) return __ldg(static_cast<const uint32_t*>(problem.permutation) + position);
  return __ldg(static_cast<const int64_t*>(problem.permutation) + position);
}

// A plan can come from anywhere; a wrong one must not become a wild read. These do not return.
__attribute__((noinline)) __device__ inline void report_bad_row(int64_t position, int64_t row, int64_t num_rows) {
  printf("reprocuda: a plan's permutation names row %lld at position %lld, of %lld rows\n", static_cast<long long>(row),
         static_cast<long long>(position), static_cast<long long>(num_rows));
  __trap();
}

__attribute__((noinline)) __device__ inline void report_bad_offsets(int64_t num_rows) {
  printf("reprocuda: a plan's offsets do not rise from 0 to %lld, the number of rows\n", static_cast<long long>(num_rows));
  __trap();
}

// The source rows at kCount positions from `position` on; those beyond the first `count` repeat the last of these.
template <int kCount>
__device__ __forceinline__ void source_rows(const SegmentProblem& problem, int64_t position, int count,
                                            int64_t (&rows)[kCount]) {
  const auto gather = [&](const auto* permutation) {
    if (count == kCount) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) rows[j] = __ldg(permutation + j);
    } else {
#pragma unroll
      for (int j = 0; j < kCount; ++j) rows[j] = __ldg(permutation + (j < count ? j : count - 1));
    }
  };
  if (problem.permutation == nullptr) {
#pragma unroll
    for (int j = 0; j < kCount; ++j) rows[j] = position + (j < count ? j : count - 1);
  } else if (problem.permutation_bytes == 4) {
    gather(static_cast<const uint32_t*>(problem.permutation) + position);
  } else {
    gather(static_cast<const int64_t*>(problem.permutation) + position);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (static_cast<uint64_t>(rows[j]) >= static_cast<uint64_t>(problem.num_sources)) {
        report_bad_row(position + (j < count ? j : count - 1), rows[j], problem.num_sources);
      }
    }
  }
}

// The pack at the start of each of the rows, whose first one begins at `first`: one multiplication of 32 bits for an address
// where that serves.
template <class T, int kColumns, int kCount>
__device__ __forceinline__ void load_rows(const SegmentProblem& problem, const T* first, const int64_t (&rows)[kCount],
                                          Pack<T, kColumns> (&values)[kCount]) {
  const uint32_t row_bytes = problem.row_bytes;
  if (row_bytes != 0) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(first);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const uint64_t offset = static_cast<uint64_t>(static_cast<uint32_t>(rows[j])) * row_bytes;
      values[j] = load_constant<T, kColumns>(reinterpret_cast<const T*>(bytes + offset));
    }
  } else {
#pragma unroll
    for (int j = 0; j < kCount; ++j) values[j] = load_constant<T, kColumns>(first + rows[j] * problem.inner);
  }
}

// Which part of the arrays a block works on: the columns of one tile, the rows and targets of one `outer`, the latter two
// counted over all of them.
struct Slice {
  int64_t first_column;
  int64_t first_row;
  int64_t first_target;

  __device__ Slice(const SegmentProblem& problem, unsigned slice, int columns_per_lane) {
    const int64_t outer = slice / problem.num_tiles;
    first_column = static_cast<int64_t>(slice % problem.num_tiles) * (problem.lanes * columns_per_lane);
    first_row = outer * problem.num_rows;
    first_target = outer * problem.num_targets;
  }
};

// Items of the path, and the units they are divided into.
struct SegmentPath {
  const int64_t* offsets;
  int64_t num_targets;
  int64_t first_row;
  int64_t last_row;
  int64_t num_items;
  int64_t items_per_walker;
  int64_t items_per_unit;

  __device__ explicit SegmentPath(const SegmentProblem& problem)
      : offsets(problem.offsets), num_targets(problem.num_targets), first_row(__ldg(problem.offsets)),
        last_row(__ldg(problem.offsets + problem.num_targets)) {
    const unsigned walkers = kSegmentThreads / static_cast<unsigned>(problem.lanes);
    num_items = last_row - first_row + num_targets;
    items_per_walker = (num_items + problem.num_units * walkers - 1) / (problem.num_units * walkers);
    items_per_unit = items_per_walker * walkers;
  }

  __device__ __forceinline__ int64_t clamp(int64_t item) const { return item < num_items ? item : num_items; }
  __device__ __forceinline__ int64_t row_at(int64_t item, int64_t target) const { return first_row + item - target; }
  __device__ __forceinline__ int64_t item_of_row(int64_t row, int64_t target) const { return row - first_row + target; }
  __device__ __forceinline__ bool ends_before(int64_t target, int64_t item) const {
    return item_of_row(__ldg(offsets + target + 1), target) < item;
  }

  // How many of the targets [low, high) end before `item`, plus low. Targets end in order.
  __device__ int64_t targets_before(int64_t item, int64_t low, int64_t high) const {
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      if (ends_before(middle, item)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }
};

// The first value of [low, high) for which `before` is false, or high; `before` holds for a prefix. Called by all lanes of a
// warp with the same arguments, it asks 32 questions at a time.
template <class Predicate>
__device__ int64_t warp_partition_point(int64_t low, int64_t high, Predicate&& before) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  while (low < high) {
    const int64_t step = (high - low + 31) / 32;
    const int64_t probe = low + lane * step;
    const int passed = __popc(__ballot_sync(0xffffffffu, probe < high && before(probe)));
    if (passed == 0) break;
    const int64_t next = low + passed * step;
    low = next - step + 1;
    high = next < high ? next : high;
  }
  return low;
}

__device__ __forceinline__ void mark_unsettled(const SegmentProblem& problem, int64_t output) {
  atomicOr(&problem.unsettled[output / 32], 1u << (output % 32));
}

// Places in the pools for split targets.
template <class Partial>
__device__ __forceinline__ Partial* partial_of(const SegmentProblem& problem, int64_t unit, int64_t slice, bool tail,
                                              int columns_per_lane) {
  const int64_t tile = static_cast<int64_t>(problem.lanes) * columns_per_lane;
  return static_cast<Partial*>(problem.partials) + ((unit * problem.num_slices + slice) * 2 + (tail ? 1 : 0)) * tile;
}

}  // namespace reprocuda
