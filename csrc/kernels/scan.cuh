// Prefix sums along one dimension: out[o, i, k] = in[o, 0, k] + ... + in[o, i, k].
//
// What: a column, one (o, k), is cut into chunks, a chunk into tiles, a tile into runs of eight elements, one for each walker,
//   a thread. scan_totals adds up the chunks. scan_filter adds what precedes a chunk, walks its tiles, and rounds each prefix.
//   What it cannot vouch for raises a bit for its stretch, another cut of the column, and three more kernels redo such
//   stretches in integers: scan_exact_totals (of the stretches before), scan_exact_starts (their prefix sums, limb by limb)
//   and scan_exact_prefixes. They read a word and return where no bit is raised.
// Guarantee: each prefix is its own exact sum rounded once, for any schedule and grid, because a Sum encloses in any order and
//   vouches for its own rounding, and everything else is integers. Integers wrap; for them the first two kernels do.
// Cost: two reads (one where a column is one chunk) and one write of the data. Exact: two more reads of the columns concerned,
//   and about as many instructions a prefix as a thread needs for two dozen elements.
// Workspace: a Sum for each chunk and column, if there are several chunks; a bit a stretch; a set of limbs a stretch and a word
//   a column, if there are several stretches.
#pragma once

#include "../numerics/running_sum.h"
#include "element.cuh"

namespace reprocuda {

inline constexpr int kScanThreads = 256;
inline constexpr int kScanItems = 8;  // of a run
inline constexpr int kScanWarps = kScanThreads / 32;

// A span of `lanes * walkers` threads takes a bundle of neighbouring columns; a block takes one chunk of as many bundles as
// fit. Columns of several chunks fill a block.
struct ScanShape {
  int64_t outer;
  int64_t length;
  int64_t inner;
  int lanes;    // columns of a bundle: a power of two, at most 32
  int walkers;  // along the dimension: a power of two
  int64_t bundles_per_outer;
  unsigned num_chunks;
  int64_t chunk;  // elements of a column, a multiple of a tile's

  __host__ __device__ int span() const { return lanes * walkers; }
  __host__ __device__ int64_t tile() const { return static_cast<int64_t>(walkers) * kScanItems; }
  __host__ __device__ int64_t num_columns() const { return outer * inner; }
};

template <class T>
using ScanFormat = std::conditional_t<std::is_same_v<T, double>, Fp64Terms, Fp32Terms>;

// The stretches that have to be redone. Stretch j of column c is number j * num_columns + c.
struct ScanMarks {
  unsigned* bits;     // one a stretch
  unsigned* ends;     // [num_columns] behind the last stretch marked; nullptr where a column is one stretch
  int64_t stretch;    // elements, a multiple of kScanItems
  int64_t num_stretches;  // of all columns

  __device__ __forceinline__ void raise(int64_t column, int64_t num_columns, int64_t position) const {
    const int64_t own = position / stretch;
    const int64_t number = own * num_columns + column;
    atomicOr(&bits[number / 32], 1u << (number % 32));
    if (ends != nullptr) atomicMax(&ends[column], static_cast<unsigned>(own + 1));
  }
  __device__ __forceinline__ bool is_raised(int64_t number) const { return ((bits[number / 32] >> (number % 32)) & 1) != 0; }
};

// Where a thread works.
struct ScanPlace {
  int64_t chunk;
  int64_t bundle;
  int lane;
  int walker;
  int64_t column;  // over all outer
  int64_t first;   // its element at position 0
  bool active;     // it has a column

  __device__ __forceinline__ explicit ScanPlace(const ScanShape& shape) {
    const int thread = static_cast<int>(threadIdx.x);
    const int span = shape.span();
    chunk = blockIdx.x % shape.num_chunks;
    bundle = static_cast<int64_t>(blockIdx.x / shape.num_chunks) * (kScanThreads / span) + thread / span;
    lane = thread % shape.lanes;
    walker = thread % span / shape.lanes;
    const int64_t o = bundle / shape.bundles_per_outer;
    const int64_t k = bundle % shape.bundles_per_outer * shape.lanes + lane;
    active = o < shape.outer && k < shape.inner;
    column = o * shape.inner + k;
    first = o * shape.length * shape.inner + k;
  }
};

// A walker's run in the tile that begins at `tile`: its first position, and how many elements it has.
struct ScanRun {
  int64_t position;
  int count;

  __device__ __forceinline__ ScanRun(const ScanPlace& place, int64_t tile, int64_t end) {
    position = tile + place.walker * kScanItems;
    const int64_t rest = place.active ? end - position : 0;
    count = rest < 0 ? 0 : rest < kScanItems ? static_cast<int>(rest) : kScanItems;
  }
};

template <class T>
inline constexpr int kScanPack = sizeof(T) * kScanItems > 16 ? 16 / static_cast<int>(sizeof(T)) : kScanItems;

// Whether a run lies in memory as whole vectors do.
template <class T>
__device__ __forceinline__ bool is_packed(const T* address, int64_t stride, int count) {
  constexpr uintptr_t kBytes = sizeof(T) * kScanPack<T>;
  return stride == 1 && count == kScanItems && reinterpret_cast<uintptr_t>(address) % kBytes == 0;
}

template <class T>
__device__ __forceinline__ void load_run(const T* from, int64_t stride, int count, T (&values)[kScanItems]) {
  constexpr int kPack = kScanPack<T>;
  if (is_packed(from, stride, count)) {
#pragma unroll
    for (int v = 0; v < kScanItems; v += kPack) {
      const auto pack = load_constant<T, kPack>(from + v);
#pragma unroll
      for (int j = 0; j < kPack; ++j) values[v + j] = pack.values[j];
    }
  } else {
#pragma unroll
    for (int v = 0; v < kScanItems; ++v) {
      values[v] = v < count ? load_constant<T, 1>(from + v * stride).values[0] : positive_zero<T>();
    }
  }
}

template <class T>
__device__ __forceinline__ void store_run(T* to, int64_t stride, int count, const T (&values)[kScanItems]) {
  constexpr int kPack = kScanPack<T>;
  if (is_packed(to, stride, count)) {
#pragma unroll
    for (int v = 0; v < kScanItems; v += kPack) {
      Pack<T, kPack> pack;
#pragma unroll
      for (int j = 0; j < kPack; ++j) pack.values[j] = values[v + j];
      store<T, kPack>(to + v, pack);
    }
  } else {
#pragma unroll
    for (int v = 0; v < kScanItems; ++v) {
      if (v < count) to[v * stride] = values[v];
    }
  }
}

template <class State>
__device__ __forceinline__ State from_lane(const State& state, int lane) {
  unsigned words[(sizeof(State) + 3) / 4] = {};
  __builtin_memcpy(words, &state, sizeof(State));
#pragma unroll
  for (unsigned& word : words) word = __shfl_sync(0xffffffffu, word, lane);
  State result;
  __builtin_memcpy(&result, words, sizeof(State));
  return result;
}

template <class State>
struct ScannedWalkers {
  State before;  // the sum of the walkers before this one, in its column
  State total;   // of all walkers
};

// Called by the whole block, with one `shared` for all calls of a kernel.
template <class State>
__device__ __forceinline__ ScannedWalkers<State> scan_walkers(const ScanShape& shape, const State& mine,
                                                              State (&shared)[kScanWarps][32]) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int warp = static_cast<int>(threadIdx.x / 32);
  const int span = shape.span();
  const int within = span < 32 ? span : 32;  // threads of the span in this warp
  const int place = lane % within;
  State inclusive = mine;
  for (int step = shape.lanes; step < within; step *= 2) {
    State other = from_lane(inclusive, place >= step ? lane - step : lane);
    if (place >= step) inclusive.merge(other);
  }
  ScannedWalkers<State> result;
  result.before = from_lane(inclusive, place >= shape.lanes ? lane - shape.lanes : lane);
  if (place < shape.lanes) result.before = State::empty();
  result.total = from_lane(inclusive, lane - place + within - shape.lanes + place % shape.lanes);
  if (span <= 32) return result;

  if (place >= within - shape.lanes) shared[warp][place % shape.lanes] = inclusive;
  __syncthreads();
  const int first_warp = warp / (span / 32) * (span / 32);
  State total = State::empty();
  for (int w = first_warp; w < first_warp + span / 32; ++w) {
    if (w == warp) result.before.merge(total);
    total.merge(shared[w][place % shape.lanes]);
  }
  result.total = total;
  __syncthreads();
  return result;
}

template <class T>
__global__ void __launch_bounds__(kScanThreads)
    scan_totals(const __grid_constant__ ScanShape shape, const T* in,
                Sum<T>* totals)  // [bundles, num_chunks, lanes]; that of the last chunk stays unwritten
{
  __shared__ Sum<T> shared[kScanWarps][32];
  const ScanPlace place(shape);
  if (place.chunk + 1 == shape.num_chunks) return;
  const int64_t begin = place.chunk * shape.chunk;
  const int64_t end = begin + shape.chunk;
  Sum<T> sum = Sum<T>::empty();
  for (int64_t tile = begin; tile < end; tile += shape.tile()) {
    const ScanRun run(place, tile, end);
    T values[kScanItems];
    load_run(in + place.first + run.position * shape.inner, shape.inner, run.count, values);
#pragma unroll
    for (int v = 0; v < kScanItems; ++v) {
      if (v < run.count) sum.add(values[v]);
    }
  }
  const Sum<T> total = scan_walkers(shape, sum, shared).total;
  if (place.walker == 0) totals[(place.bundle * shape.num_chunks + place.chunk) * shape.lanes + place.lane] = total;
}

template <class T>
__global__ void __launch_bounds__(kScanThreads)
    scan_filter(const __grid_constant__ ScanShape shape, const T* in, T* out, const Sum<T>* totals,
                const __grid_constant__ ScanMarks marks, bool force_exact) {
  __shared__ Sum<T> shared[kScanWarps][32];
  const ScanPlace place(shape);
  const int64_t begin = place.chunk * shape.chunk;
  const int64_t end = begin + shape.chunk < shape.length ? begin + shape.chunk : shape.length;
  Sum<T> carry = Sum<T>::empty();
  if (place.chunk > 0) {
    const Sum<T>* own = totals + place.bundle * shape.num_chunks * shape.lanes + place.lane;
    for (int64_t c = place.walker; c < place.chunk; c += shape.walkers) carry.merge(own[c * shape.lanes]);
    carry = scan_walkers(shape, carry, shared).total;
  }
  for (int64_t tile = begin; tile < end; tile += shape.tile()) {
    const ScanRun run(place, tile, end);
    const int64_t at = place.first + run.position * shape.inner;
    T values[kScanItems];
    load_run(in + at, shape.inner, run.count, values);
    Sum<T> sum = Sum<T>::empty();
#pragma unroll
    for (int v = 0; v < kScanItems; ++v) {
      if (v < run.count) sum.add(values[v]);
    }
    const ScannedWalkers<Sum<T>> walkers = scan_walkers(shape, sum, shared);
    sum = carry;
    sum.merge(walkers.before);
    carry.merge(walkers.total);
    bool certified = !(kIsFloat<T> && force_exact);
#pragma unroll
    for (int v = 0; v < kScanItems; ++v) {
      if (v >= run.count) continue;
      sum.add(values[v]);
      certified = sum.round(&values[v]) && certified;
    }
    store_run(out + at, shape.inner, run.count, values);
    if (kIsFloat<T> && !certified && run.count > 0) marks.raise(place.column, shape.num_columns(), run.position);
  }
}

// Calls visit(number, column, first position) for the stretches of the grid's threads.
template <class Visit>
__device__ __forceinline__ void for_each_stretch(const ScanShape& shape, const ScanMarks& marks, Visit&& visit) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kScanThreads;
  for (int64_t number = static_cast<int64_t>(blockIdx.x) * kScanThreads + threadIdx.x; number < marks.num_stretches;
       number += step) {
    visit(number, number % shape.num_columns(), number / shape.num_columns());
  }
}

template <class T>
__device__ __forceinline__ int64_t first_of(const ScanShape& shape, int64_t column, int64_t position) {
  return (column / shape.inner * shape.length + position) * shape.inner + column % shape.inner;
}

// limbs [kLimbs + 1, num_stretches]: the exact sum of every stretch that precedes a marked one; last its flags.
template <class T>
__global__ void __launch_bounds__(kScanThreads)
    scan_exact_totals(const __grid_constant__ ScanShape shape, const T* in, const __grid_constant__ ScanMarks marks,
                      int64_t* limbs) {
  using Format = ScanFormat<T>;
  for_each_stretch(shape, marks, [&](int64_t number, int64_t column, int64_t stretch) {
    if (stretch + 1 >= marks.ends[column]) return;
    ExactAccumulator<Format> sum;  // of far fewer than 2^30 terms: no memory holds so many for each place in the pool
    sum.view().clear();
    const T* from = in + first_of<T>(shape, column, stretch * marks.stretch);
    for (int64_t i = 0; i < marks.stretch; ++i) {
      sum.view().add(to_double(load_constant<T, 1>(from + i * shape.inner).values[0]));
    }
    sum.view().normalize();
    for (int k = 0; k < Format::kLimbs; ++k) limbs[k * marks.num_stretches + number] = sum.storage[k];
    limbs[Format::kLimbs * marks.num_stretches + number] = static_cast<int64_t>(sum.flag_word);
  });
}

// What is in `limbs` becomes what precedes each stretch, up to the last that is marked. A warp takes a limb of a column.
template <class Format>
__global__ void __launch_bounds__(kScanThreads)
    scan_exact_starts(const __grid_constant__ ScanShape shape, const __grid_constant__ ScanMarks marks, int64_t* limbs) {
  const int64_t columns = shape.num_columns();
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int64_t step = static_cast<int64_t>(gridDim.x) * kScanWarps;
  for (int64_t row = static_cast<int64_t>(blockIdx.x) * kScanWarps + threadIdx.x / 32; row < columns * (Format::kLimbs + 1);
       row += step) {
    const int64_t limb = row / columns;
    const int64_t column = row % columns;
    const bool is_flags = limb == Format::kLimbs;
    int64_t* own = limbs + limb * marks.num_stretches + column;
    const int64_t end = marks.ends[column];
    int64_t before = 0;
    const auto joined = [is_flags](int64_t a, int64_t b) { return is_flags ? a | b : a + b; };
    for (int64_t first = 0; first < end; first += 32) {
      const int64_t j = first + lane;
      int64_t inclusive = j + 1 < end ? own[j * columns] : 0;
      for (int delta = 1; delta < 32; delta *= 2) {
        const int64_t other = __shfl_up_sync(0xffffffffu, inclusive, static_cast<unsigned>(delta));
        if (lane >= delta) inclusive = joined(inclusive, other);
      }
      const int64_t exclusive = __shfl_up_sync(0xffffffffu, inclusive, 1u);
      if (j < end) own[j * columns] = joined(before, lane > 0 ? exclusive : 0);
      before = joined(before, __shfl_sync(0xffffffffu, inclusive, 31));
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kScanThreads)
    scan_exact_prefixes(const __grid_constant__ ScanShape shape, const T* in, T* out,
                        const __grid_constant__ ScanMarks marks,
                        const int64_t* limbs)  // nullptr where a column is one stretch
{
  using Format = ScanFormat<T>;
  for_each_stretch(shape, marks, [&](int64_t number, int64_t column, int64_t stretch) {
    if (!marks.is_raised(number)) return;
    ExactAccumulator<Format> start;
    start.view().clear();
    if (limbs != nullptr) {
      for (int k = 0; k < Format::kLimbs; ++k) start.storage[k] = limbs[k * marks.num_stretches + number];
      start.flag_word = static_cast<uint32_t>(limbs[Format::kLimbs * marks.num_stretches + number]);
      start.view().normalize();
    }
    RunningSum<Format> sum(start.view());
    const int64_t begin = stretch * marks.stretch;
    const int64_t end = begin + marks.stretch < shape.length ? begin + marks.stretch : shape.length;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t at = first_of<T>(shape, column, i);
      sum.add(to_double(load_constant<T, 1>(in + at).values[0]));
      out[at] = sum.template round<T>();
    }
  });
}

}  // namespace reprocuda
