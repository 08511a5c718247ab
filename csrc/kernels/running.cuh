// Running products and log-sum-exps (numerics/running.h).
//
// What      running_totals: what every block of kRunningBlock elements comes to, a thread a block. running_carries: what
//           precedes each within its group, in place, a thread a group. running_groups: what precedes each group, a thread a
//           slice. running_prefixes: the elements, a thread a block.
// Guarantee the CPU's bits: the order is that of numerics/running.h, and every thread writes what no other touches. A result
//           may be written over the elements: a block is read by its own thread, after all totals are taken.
// Cost      elements are read twice and written once; up to 4 launches, and 1 where a slice is one block.
#pragma once

#include <type_traits>

#include "../numerics/rounding.h"
#include "../numerics/running.h"
#include "../problems/running.h"
#include "device.cuh"

namespace reprocuda {

inline constexpr int kRunningThreads = 128;

template <class T, class Cell>
__device__ __forceinline__ Cell running_load(T x) {
  if constexpr (std::is_integral_v<Cell>) {
    return x;
  } else {
    return to_double(x);
  }
}

template <class T, class Cell>
__device__ __forceinline__ T running_store(Cell x) {
  if constexpr (std::is_integral_v<Cell>) {
    return static_cast<T>(x);
  } else {
    return round_to<T>(x);
  }
}

// The slices' shape: [outer, length, inner], blocks and groups along the middle.
struct RunningShape {
  int64_t outer;
  int64_t length;
  int64_t inner;

  __host__ __device__ int64_t num_blocks() const { return (length + kRunningBlock - 1) / kRunningBlock; }
  __host__ __device__ int64_t num_groups() const { return (num_blocks() + kBlocksOfGroup - 1) / kBlocksOfGroup; }
};

// Thread `t` of those that share out [outer, parts, inner].
struct RunningPlace {
  int64_t outer;
  int64_t part;
  int64_t inner;

  __device__ RunningPlace(const RunningShape& shape, int64_t parts, int64_t t)
      : outer(t / (parts * shape.inner)), part(t / shape.inner % parts), inner(t % shape.inner) {}
};

template <class Op, class T>
__device__ __forceinline__ typename Op::State running_element(const T* in, int64_t position) {
  typename Op::Cell x[Op::kComponents];
  for (int k = 0; k < Op::kComponents; ++k) x[k] = running_load<T, typename Op::Cell>(in[position * Op::kComponents + k]);
  return Op::of(x);
}

// states [outer, num_blocks, inner]; that of a last block is never asked for.
template <class Op, class T>
__global__ void __launch_bounds__(kRunningThreads)
    running_totals(RunningShape shape, const T* in, typename Op::State* states) {
  const int64_t blocks = shape.num_blocks();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = shape.outer * blocks * shape.inner;
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count; t += step) {
    const RunningPlace place(shape, blocks, t);
    if (place.part == blocks - 1) continue;
    int64_t position = (place.outer * shape.length + place.part * kRunningBlock) * shape.inner + place.inner;
    typename Op::State total = running_element<Op>(in, position);
    for (int i = 1; i < kRunningBlock; ++i) {
      position += shape.inner;
      total = Op::combine(total, running_element<Op>(in, position));
    }
    states[t] = total;
  }
}

// A group's states become what precedes each block in the group; that of the first is left as it is. groups [outer,
// num_groups, inner], or nullptr; that of a last group is never asked for.
template <class Op>
__global__ void __launch_bounds__(kRunningThreads)
    running_carries(RunningShape shape, typename Op::State* states, typename Op::State* groups) {
  const int64_t blocks = shape.num_blocks();
  const int64_t num_groups = shape.num_groups();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = shape.outer * num_groups * shape.inner;
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count; t += step) {
    const RunningPlace place(shape, num_groups, t);
    const int64_t first = place.part * kBlocksOfGroup;
    const bool is_last = place.part == num_groups - 1;
    const int64_t end = is_last ? blocks - 1 : first + kBlocksOfGroup;  // no state of the slice's last block is there
    auto running = Preceding<Op>::nothing();
    int64_t at = (place.outer * blocks + first) * shape.inner + place.inner;
    for (int64_t block = first; block < end; ++block, at += shape.inner) {
      const typename Op::State own = states[at];
      if (running.any) states[at] = running.state;
      running.append(own);
    }
    if (is_last) {
      if (running.any) states[at] = running.state;
    } else {
      groups[t] = running.state;
    }
  }
}

// What groups come to becomes what precedes each; that of the first is left as it is.
template <class Op>
__global__ void __launch_bounds__(kRunningThreads) running_groups(RunningShape shape, typename Op::State* groups) {
  const int64_t num_groups = shape.num_groups();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = shape.outer * shape.inner;
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count; t += step) {
    const RunningPlace place(shape, 1, t);
    auto running = Preceding<Op>::nothing();
    int64_t at = place.outer * num_groups * shape.inner + place.inner;
    for (int64_t group = 0; group < num_groups; ++group, at += shape.inner) {
      typename Op::State own{};
      if (group < num_groups - 1) own = groups[at];
      if (running.any) groups[at] = running.state;
      running.append(own);
    }
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kRunningThreads)
    running_prefixes(RunningShape shape, const T* in, T* out, const typename Op::State* states,
                     const typename Op::State* groups) {
  const int64_t blocks = shape.num_blocks();
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  const int64_t count = shape.outer * blocks * shape.inner;
  for (int64_t t = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; t < count; t += step) {
    const RunningPlace place(shape, blocks, t);
    auto before = Preceding<Op>::nothing();
    const int64_t group = place.part / kBlocksOfGroup;
    if (group > 0) before.append(groups[(place.outer * shape.num_groups() + group) * shape.inner + place.inner]);
    if (place.part % kBlocksOfGroup > 0) before.append(states[t]);
    int64_t position = (place.outer * shape.length + place.part * kRunningBlock) * shape.inner + place.inner;
    auto own = Preceding<Op>::nothing();
    const int64_t rest = shape.length - place.part * kRunningBlock;
    for (int64_t i = 0; i < kRunningBlock && i < rest; ++i, position += shape.inner) {
      own.append(running_element<Op>(in, position));
      typename Op::Cell result[Op::kComponents];
      Op::finish(before.any ? Op::combine(before.state, own.state) : own.state, result);
      for (int k = 0; k < Op::kComponents; ++k) {
        out[position * Op::kComponents + k] = running_store<T, typename Op::Cell>(result[k]);
      }
    }
  }
}

}  // namespace reprocuda
