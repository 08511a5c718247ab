// Accumulation without a sort: every contribution is added to its output by 64-bit integer atomics.
//
// What: three kernels. prepare clears the workspace and finds the largest finite magnitude, which places the units;
// accumulate adds each contribution to the two words of its output (fixed_point_limbs.cuh); what lies below both is cut off
// and counted. finish rounds each output, and collects those that the two words do not settle once more, in as many digits
// as it takes (fixed_point_digits.cuh).
// Guarantee: the exact sum rounded once, for any schedule: integer additions commute, and an output is written only when
// nothing was cut off or both ends of what may have been round alike. finish writes nothing before accumulate has checked
// every index.
// Cost: reads src twice and the index once; 1 atomic a contribution where the data span at most 62 - log2(n) bits, 2
// otherwise; 16 bytes an output (and 8 a target where contributions are counted). Unsettled outputs: one more pass over src and
// index for every `pool_limbs / digits` of them, all inside finish, so the number of launches never changes.
#pragma once

#include "element.cuh"
#include "fixed_point_compose.cuh"
#include "fixed_point_limbs.cuh"
#include "fixed_point_phases.cuh"
#include "keys.cuh"

namespace reprocuda {

inline constexpr int kFixedPointThreads = 256;
inline constexpr int kMostExtremes = 512;  // blocks of prepare
inline constexpr int kUnroll = 4;          // contributions a thread has in flight
inline constexpr int64_t kOutputTile = 2 * kFixedPointThreads;
inline constexpr int64_t kSourceTile = 16 * kFixedPointThreads;
inline constexpr int64_t kClearItems = 64;

// Finite magnitudes as bits; the smallest that is not zero, and the largest.
struct Extremes {
  unsigned long long smallest = ~0ull;
  unsigned long long largest = 0;

  __device__ void include(const Extremes& other) {
    smallest = other.smallest < smallest ? other.smallest : smallest;
    largest = other.largest > largest ? other.largest : largest;
  }
};

// The workspace of one call.
struct FixedPointState {
  TwoLimbs* sums = nullptr;              // [num_outputs]
  unsigned long long* counts = nullptr;  // [num_targets] or nullptr
  Extremes* extremes = nullptr;          // [num_extremes], one for each block of prepare
  PhaseCounters* phases = nullptr;
  unsigned long long* pending = nullptr; // number of pending cells
  unsigned long long* pool = nullptr;    // [pool_limbs]
  int64_t pool_limbs = 0;
  int64_t num_targets = 0;
  int64_t most = 1;                      // contributions to one output
  int num_extremes = 0;
  int head_bits = 1;
  int cell = 1;                          // outputs that are settled together: 2 where alpha is complex
  bool force_exact = false;
};

// Of all threads' values, for every thread.
__device__ inline Extremes block_extremes(Extremes extremes) {
  __shared__ unsigned long long parts[2][kFixedPointThreads / 32];
  for (int offset = 16; offset > 0; offset /= 2) {
    Extremes other;
    other.smallest = __shfl_xor_sync(0xffffffffu, extremes.smallest, offset);
    other.largest = __shfl_xor_sync(0xffffffffu, extremes.largest, offset);
    extremes.include(other);
  }
  if (threadIdx.x % 32 == 0) {
    parts[0][threadIdx.x / 32] = extremes.smallest;
    parts[1][threadIdx.x / 32] = extremes.largest;
  }
  __syncthreads();
  for (int warp = 0; warp < kFixedPointThreads / 32; ++warp) {
    Extremes other;
    other.smallest = parts[0][warp];
    other.largest = parts[1][warp];
    extremes.include(other);
  }
  return extremes;
}

template <class T>
__device__ Placement placement_of(const FixedPointState& state) {
  Extremes all;
  for (int i = threadIdx.x; i < state.num_extremes; i += kFixedPointThreads) all.include(state.extremes[i]);
  all = block_extremes(all);
  return place_digits<T>(all.largest == 0 ? 0 : all.smallest, all.largest, state.head_bits);
}

__device__ inline int64_t global_thread() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

// fp16 needs no search: its whole range fits.
template <class T, class Keys>
__global__ void __launch_bounds__(kFixedPointThreads)
    fixed_point_prepare(const __grid_constant__ Keys keys, const T* src, const __grid_constant__ FixedPointState state) {
  for (int64_t f = global_thread(); f < keys.num_outputs; f += all_threads()) state.sums[f] = {0, 0};
  if (state.counts != nullptr) {
    for (int64_t t = global_thread(); t < state.num_targets; t += all_threads()) state.counts[t] = 0;
  }
  if (global_thread() == 0) {
    *state.phases = {0, 0};
    *state.pending = 0;
  }
  Extremes extremes;
  if constexpr (std::is_same_v<T, Half>) {
    extremes.smallest = 1;
    extremes.largest = FloatFormat<Half>::kInfinity - 1;
  } else {
    const int64_t step = all_threads();
    for (int64_t first = global_thread(); first < keys.count; first += kUnroll * step) {
      T values[kUnroll];
      for (int k = 0; k < kUnroll; ++k) {
        const int64_t e = first + k * step;
        values[k] = e < keys.count ? src[keys.source(e)] : zero<T>(false);
      }
      for (int k = 0; k < kUnroll; ++k) {
        const unsigned long long magnitude = magnitude_of(values[k]);
        if (magnitude == 0 || magnitude >= FloatFormat<T>::kInfinity) continue;
        extremes.smallest = magnitude < extremes.smallest ? magnitude : extremes.smallest;
        extremes.largest = magnitude > extremes.largest ? magnitude : extremes.largest;
      }
    }
    extremes = block_extremes(extremes);
  }
  if (threadIdx.x == 0) state.extremes[blockIdx.x] = extremes;
}

template <class T, class Keys>
__global__ void __launch_bounds__(kFixedPointThreads)
    fixed_point_accumulate(const __grid_constant__ Keys keys, const T* src, const __grid_constant__ FixedPointState state) {
  const Placement placement = placement_of<T>(state);
  const int64_t step = all_threads();
  for (int64_t first = global_thread(); first < keys.count; first += kUnroll * step) {
    Place places[kUnroll];
    T values[kUnroll];
    for (int k = 0; k < kUnroll; ++k) {
      const int64_t e = first + k * step;
      places[k] = e < keys.count ? keys.locate(e) : Place{0, -1, -1};
    }
    for (int k = 0; k < kUnroll; ++k) values[k] = places[k].output >= 0 ? src[places[k].source] : zero<T>(false);
    Addition additions[kUnroll];
    for (int k = 0; k < kUnroll; ++k) {
      if (places[k].output >= 0) additions[k] = begin_addition(values[k], state.sums + places[k].output, placement);
    }
    for (int k = 0; k < kUnroll; ++k) {
      if (places[k].output < 0) continue;
      complete_addition(additions[k], state.sums + places[k].output);
      if (state.counts != nullptr && places[k].target >= 0) atomicAdd(&state.counts[places[k].target], 1ull);
    }
  }
}

// The two words of every output, as compose() wants to see them.
struct TwoLimbSums {
  static constexpr bool kTwoLimbs = true;
  static constexpr bool kComplete = false;
  const FixedPointState& state;
  Placement placement;

  __device__ static constexpr int limbs(int64_t) { return 2; }
  __device__ int unit(int64_t, int j) const { return placement.top_unit - j * kLowBits; }
  __device__ int64_t limb(int64_t f, int j) const {
    return static_cast<int64_t>(j == 0 ? state.sums[f].high : state.sums[f].low >> kStatusBits);
  }
  __device__ uint32_t classes(int64_t f) const { return classes_of(state.sums[f]); }
  __device__ int64_t error(int64_t f) const { return error_of(state.sums[f], state.most); }
};

// All digits of the outputs that hold slots [first_slot, first_slot + capacity).
struct PoolSums {
  static constexpr bool kTwoLimbs = false;
  static constexpr bool kComplete = true;
  const FixedPointState& state;
  Placement placement;
  int64_t first_slot;
  int64_t capacity;

  __device__ int limbs(int64_t) const { return placement.digits; }
  __device__ int unit(int64_t, int j) const { return placement.unit(j); }
  __device__ bool holds(int64_t f) const {
    const unsigned long long high = state.sums[f].high;
    return is_pending(high) && slot_of(high) >= first_slot && slot_of(high) < first_slot + capacity;
  }
  __device__ unsigned long long* limbs_of(int64_t f) const {
    const int64_t place = (slot_of(state.sums[f].high) - first_slot) * state.cell + (f & (state.cell - 1));
    return state.pool + place * placement.digits;
  }
  __device__ int64_t limb(int64_t f, int j) const { return static_cast<int64_t>(limbs_of(f)[j]); }
  __device__ static int64_t error(int64_t) { return 0; }
  __device__ uint32_t classes(int64_t f) const { return static_cast<uint32_t>(state.sums[f].low); }
};

// Rounds what the two limbs settle; gives every other cell of the tile a slot.
template <class T, class Keys>
__device__ void settle_tile(int64_t tile, const Keys& keys, const TwoLimbSums& sums, const OutputRule<T>& rule, T* out) {
  const FixedPointState& state = sums.state;
  const int64_t cells = keys.num_outputs / state.cell;
  for (int64_t i = threadIdx.x; i < kOutputTile; i += kFixedPointThreads) {
    const int64_t cell = tile * kOutputTile + i;
    const int64_t first = cell * state.cell;
    bool unsettled = false;
    if (cell < cells) {
      T results[2];
      unsettled = state.force_exact || !compose_cell(sums, rule, keys, first, state.cell, results);
      for (int c = 0; c < state.cell && !unsettled; ++c) out[first + c] = results[c];
    }
    const unsigned votes = __ballot_sync(0xffffffffu, unsettled);
    if (votes == 0) continue;
    const int leader = __ffs(static_cast<int>(votes)) - 1;
    const int lane = static_cast<int>(threadIdx.x % 32);
    unsigned long long slot = 0;
    if (lane == leader) slot = atomicAdd(state.pending, static_cast<unsigned long long>(__popc(votes)));
    slot = __shfl_sync(0xffffffffu, slot, leader) + __popc(votes & ((1u << lane) - 1));
    if (unsettled) {
      for (int c = 0; c < state.cell; ++c) state.sums[first + c] = pending_in(slot);
    }
  }
}

template <class T, class Keys>
__device__ void collect_tile(int64_t tile, const Keys& keys, const T* src, const PoolSums& sums) {
  for (int64_t i = threadIdx.x; i < kSourceTile; i += kFixedPointThreads) {
    const int64_t e = tile * kSourceTile + i;
    if (e >= keys.count) break;
    const Place place = keys.locate(e);
    if (place.output < 0 || !sums.holds(place.output)) continue;
    const T x = src[place.source];
    const uint32_t seen = class_of(x);
    raise_flags(&sums.state.sums[place.output].low, seen);
    if ((seen & (kPositive | kNegative)) == 0) continue;
    const Significand parts = split_magnitude<T>(magnitude_of(x));
    unsigned long long* limbs = sums.limbs_of(place.output);
    split_digits(parts.value, parts.position + FloatFormat<T>::kUnitExponent, is_negative_value(x), sums.placement,
                 sums.placement.digits,
                 [&](int j, int64_t digit) { atomicAdd(limbs + j, static_cast<unsigned long long>(digit)); });
  }
}

template <class T, class Keys>
__device__ void write_tile(int64_t tile, const Keys& keys, const PoolSums& sums, const OutputRule<T>& rule, T* out) {
  const int cell_size = sums.state.cell;
  const int64_t cells = keys.num_outputs / cell_size;
  for (int64_t i = threadIdx.x; i < kOutputTile; i += kFixedPointThreads) {
    const int64_t cell = tile * kOutputTile + i;
    const int64_t first = cell * cell_size;
    if (cell >= cells || !sums.holds(first)) continue;
    T results[2];
    compose_cell(sums, rule, keys, first, cell_size, results);
    for (int c = 0; c < cell_size; ++c) out[first + c] = results[c];
  }
}

template <class T, class Keys>
__global__ void __launch_bounds__(kFixedPointThreads, 3)
    fixed_point_finish(const __grid_constant__ Keys keys, const T* src, T* out, const __grid_constant__ OutputRule<T> rule,
                       const __grid_constant__ FixedPointState state) {
  const Placement placement = placement_of<T>(state);
  const int64_t output_tiles = (keys.num_outputs / state.cell + kOutputTile - 1) / kOutputTile;
  const int64_t source_tiles = (keys.count + kSourceTile - 1) / kSourceTile;
  const int64_t limbs_of_cell = int64_t{state.cell} * placement.digits;
  const int64_t capacity = state.pool_limbs / limbs_of_cell;
  const TwoLimbSums two_limbs{state, placement};
  Phases phases(state.phases);
  for (;;) {
    const int64_t item = phases.take();
    if (item < output_tiles) {
      settle_tile(item, keys, two_limbs, rule, out);
      phases.finish();
      continue;
    }
    phases.wait_for(output_tiles);
    const int64_t pending = static_cast<int64_t>(*state.pending);
    // A round serves `capacity` pending cells: clear the pool, collect their contributions, write them.
    const int64_t round_items = kClearItems + source_tiles + output_tiles;
    const int64_t round = (item - output_tiles) / round_items;
    if (round * capacity >= pending) return;
    const int64_t round_start = output_tiles + round * round_items;
    const int64_t part = item - round_start;
    const PoolSums pool{state, placement, round * capacity, capacity};
    if (part < kClearItems) {
      phases.wait_for(round_start);
      const int64_t left = pending - round * capacity;
      const int64_t used = (left < capacity ? left : capacity) * limbs_of_cell;
      constexpr int64_t kStep = kClearItems * kFixedPointThreads;
      for (int64_t i = part * kFixedPointThreads + threadIdx.x; i < used; i += kStep) state.pool[i] = 0;
    } else if (part < kClearItems + source_tiles) {
      phases.wait_for(round_start + kClearItems);
      collect_tile(part - kClearItems, keys, src, pool);
    } else {
      phases.wait_for(round_start + kClearItems + source_tiles);
      write_tile(part - kClearItems - source_tiles, keys, pool, rule, out);
    }
    phases.finish();
  }
}

}  // namespace reprocuda
