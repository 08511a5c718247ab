// Divides the work of one element type and launches its kernels. Instantiated by one .cu file for each family of types, so that
// they compile side by side.
#pragma once

#include <algorithm>
#include <bit>
#include <stdexcept>

#include "../kernels/split_segments.cuh"
#include "grid.h"
#include "sorted.h"

namespace reprocuda::cuda {
namespace detail {

inline constexpr int64_t kItemsPerWalker = 8;         // fewer do not pay for a walker's share of the merging
inline constexpr int64_t kMaxItemsPerUnit = 1 << 28;  // counted in 32 bits; and a limb takes 2^29 rows
inline constexpr int64_t kMaxBlocks = 0x7fffffff;

inline bool is_aligned(const void* address, size_t bytes) { return reinterpret_cast<uintptr_t>(address) % bytes == 0; }

// Columns that one lane can move in one instruction: 16 bytes of them, or 4 where elements are small.
template <class T>
constexpr int kVectorColumns = sizeof(T) >= 8 ? 2 : 4;

template <class T>
bool can_use_vectors(const SegmentProblem& problem) {
  constexpr size_t kBytes = sizeof(T) * kVectorColumns<T>;
  return problem.inner % kVectorColumns<T> == 0 && is_aligned(problem.src, kBytes) && is_aligned(problem.out, kBytes) &&
         is_aligned(problem.self, kBytes) && is_aligned(problem.kept, kBytes);
}

template <class T, class State>
constexpr int64_t limb_bytes() {
  if constexpr (kHasMean<State>) {
    return (kNumLimbs<T> + 1) * sizeof(int64_t);
  } else {
    return 0;
  }
}

// How many blocks of segments_reduce an SM holds: its launch bounds promise the registers, shared memory may be short.
template <class State, int kColumns>
int64_t blocks_per_sm(int compute_capability) {
  const bool has_164_kib = compute_capability == 80 || compute_capability == 87;
  const bool has_228_kib = compute_capability >= 90 && compute_capability < 120;
  const int64_t available = (has_228_kib ? 228 : has_164_kib ? 164 : 100) * 1024;
  const int64_t needed = 2 * kColumns * kSegmentThreads * static_cast<int64_t>(sizeof(State)) +
                         static_cast<int64_t>(sizeof(ExactQueue)) + (kSegmentThreads + 1) * 8 + 1024;
  return std::clamp<int64_t>(available / needed, 1, kSegmentBlocksPerSm);
}

// Blocks have equal work, so a last wave that is not full is time lost. Of one to four waves the fullest, the fewest if equal.
inline int64_t units_that_fill(int64_t resident_blocks, int64_t num_slices) {
  int64_t best = 1;
  double best_use = 0;
  for (int64_t waves = 1; waves <= 4; ++waves) {
    const int64_t units = std::max<int64_t>(1, waves * resident_blocks / num_slices);
    const int64_t places = ceil_div(units * num_slices, resident_blocks) * resident_blocks;
    const double use = static_cast<double>(units * num_slices) / static_cast<double>(places);
    if (use > best_use) {
      best = units;
      best_use = use;
    }
  }
  return best;
}

// How many units, as a function of shapes: enough to fill the device, but each worth its merging and all within the pool.
template <class T, int kColumns, class State>
int64_t choose_units(const SegmentProblem& problem, int64_t num_slices, const Context& context) {
  const int64_t columns = static_cast<int64_t>(problem.lanes) * kColumns;
  const int64_t walkers = kSegmentThreads / problem.lanes;
  const int64_t items = problem.num_rows + problem.num_targets;
  const int64_t bytes_per_unit =
      num_slices * columns * (2 * static_cast<int64_t>(sizeof(State)) + 2 * limb_bytes<T, State>() / kUnitsPerHelper + 1);
  const int64_t fixed_bytes = num_slices * columns * 2 * limb_bytes<T, State>();
  const int64_t affordable = std::max<int64_t>(0, kMaxPartialBytes - fixed_bytes) / bytes_per_unit;
  const int64_t resident = context.num_sms * blocks_per_sm<State, kColumns>(context.compute_capability);
  const int64_t wanted = units_that_fill(resident, num_slices);
  const int64_t worthwhile = ceil_div(items, walkers * kItemsPerWalker);
  return std::max<int64_t>(1, std::min({wanted, worthwhile, affordable}));
}

template <class T, int kColumns, template <class> class State>
void reduce(SegmentProblem problem, int64_t outer, const Context& context) {
  problem.lanes = static_cast<int>(
      std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(32, ceil_div(problem.inner, kColumns)))));
  const int64_t columns = static_cast<int64_t>(problem.lanes) * kColumns;
  const int64_t num_tiles = ceil_div(problem.inner, columns);
  const int64_t num_slices = num_tiles * outer;
  const int64_t num_units = choose_units<T, kColumns, State<T>>(problem, num_slices, context);
  const int64_t blocks = num_units * num_slices;
  if (blocks > kMaxBlocks || (problem.num_rows + problem.num_targets) / num_units > kMaxItemsPerUnit) {
    throw std::runtime_error("reprocuda: the problem is too large for the sorted algorithm");
  }
  problem.num_tiles = static_cast<unsigned>(num_tiles);
  problem.num_slices = static_cast<unsigned>(num_slices);
  problem.num_units = static_cast<unsigned>(num_units);
  if (num_units > 1) {
    problem.partials = context.temporary<State<T>>(2 * blocks * columns);
    problem.unit_targets = context.temporary<int64_t>(num_units);
    problem.arrivals = context.temporary<unsigned>(blocks);
    const int64_t limb_columns = num_limb_slots(num_units) * num_slices * columns;
    const int64_t limbs_of_column = limb_bytes<T, State<T>>() / static_cast<int64_t>(sizeof(int64_t));
    problem.limbs = context.temporary<int64_t>(limb_columns * limbs_of_column);
  }
  launch(segments_reduce<T, kColumns, State>, static_cast<unsigned>(blocks), kSegmentThreads, 0, context.stream, problem);
  if (num_units > 1) {
    launch(segments_merge<T, kColumns, State>, static_cast<unsigned>(blocks - num_slices), kSegmentThreads, 0, context.stream,
           problem);
  }
}

}  // namespace detail

template <class T>
void reduce_segments_of(int64_t outer, const SegmentProblem& problem, const Context& context) {
  if (detail::can_use_vectors<T>(problem)) {
    detail::reduce<T, detail::kVectorColumns<T>, Sum>(problem, outer, context);
  } else {
    detail::reduce<T, 1, Sum>(problem, outer, context);
  }
}

extern template void reduce_segments_of<Half>(int64_t, const SegmentProblem&, const Context&);
extern template void reduce_segments_of<BFloat16>(int64_t, const SegmentProblem&, const Context&);
extern template void reduce_segments_of<float>(int64_t, const SegmentProblem&, const Context&);
extern template void reduce_segments_of<double>(int64_t, const SegmentProblem&, const Context&);

}  // namespace reprocuda::cuda
