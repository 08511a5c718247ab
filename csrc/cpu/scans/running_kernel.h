// What the running products and log-sum-exps of the CPU ask of each instruction set. Their kernels run in round-to-nearest
// with subnormals kept.
//
// A tile is kRunningBlock elements of each of kRunningLanes streams. A stream is a block of a slice, or every lane has a slice
// of its own.
#pragma once

#include <cstdint>

#include "../../numerics/running.h"

namespace reprocuda::cpu {

inline constexpr int kRunningLanes = 8;
inline constexpr int64_t kShortCells = 2048;  // of the slices that kernels take as they lie, in the first-level cache

// Elements of a tile, in components: lane w has counts[w] of them, from first[w] on, `step` apart. Lanes from `width` on are
// not stored.
struct TileShape {
  int64_t first[kRunningLanes];
  int counts[kRunningLanes];
  int rows;  // the largest count
  int width;
  int64_t step;
};

// By rows or by streams, as its kernels see fit.
template <class Op>
struct Tile {
  static constexpr int kCells = sizeof(typename Op::State) / sizeof(typename Op::Cell);
  alignas(64) typename Op::Cell cells[kCells][kRunningBlock][kRunningLanes];
};

template <class Op, class T>
struct RunningKernels {
  // Every lane's elements, combined from its first on, and what each comes to.
  void (*load)(const T* in, const TileShape& shape, Tile<Op>& tile, typename Op::State (&totals)[kRunningLanes]);
  // ... what precedes them before each, where there is anything.
  void (*precede)(Tile<Op>& tile, const TileShape& shape, const Preceding<Op> (&before)[kRunningLanes]);
  void (*store)(Tile<Op>& tile, const TileShape& shape, T* out);
  // `count` contiguous blocks [length, inner] of slices of at most kRunningBlock elements, no more than kShortCells numbers
  // each; or nullptr where tiles serve as well.
  void (*short_slices)(const T* in, T* out, int64_t count, int64_t length, int64_t inner);
};

// For the instruction set in use.
template <class Op, class T>
RunningKernels<Op, T> running_kernels();

}  // namespace reprocuda::cpu
