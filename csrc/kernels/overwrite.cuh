// Plain writes through an index: of all elements aimed at one place the last along the indexed dimension stands.
//
// What: claim raises a slot for every place that elements can meet in to 1 + the largest coordinate aimed at it, by an integer
// maximum, which knows no order; copy then writes exactly the elements that hold their slot. Elements that share their index
// (rows) share a slot. Where no two elements can meet, copy alone runs, without slots.
// Guarantee: the same bits for any schedule, since every place is written at most once. An index out of range is printed and
// traps, where there are slots before anything is written.
// Cost: 3 graph nodes with the clearing of the slots; two reads of the index, one of the source; 4 bytes a slot (8 beyond
// 2^32 - 1 coordinates). A slot that already holds more is only read.
#pragma once

#include "../problems/overwrite.h"
#include "keys.cuh"

namespace reprocuda {

inline constexpr int kOverwriteThreads = 256;

struct alignas(16) Bytes16 {
  uint64_t halves[2];
};

struct OverwritePlace {
  int64_t source;      // offset into src
  int64_t output;      // offset into out
  int64_t slot;
  int64_t coordinate;  // along the indexed dimension
};

// Elements, or those of them that have an index of their own, numbered in row-major order.
struct OverwriteKeys {
  struct Dimension {
    Divisor size;
    int64_t src_stride = 0;
    int64_t index_stride = 0;
    int64_t out_stride = 0;   // 0 for the dimension that the index replaces
    int64_t slot_stride = 0;  // likewise; and for those along which the index does not change
    bool indexed = false;
  };

  IndexArray index;
  bool wraps = false;
  int ndim = 0;
  int64_t dim_size = 0;
  int64_t target_stride = 0;  // in out
  int64_t slot_stride = 0;    // of a target
  int64_t count = 0;
  Dimension dims[kMaxDims];

  __device__ OverwritePlace locate(int64_t e) const {
    OverwritePlace place = {0, 0, 0, 0};
    int64_t position = 0;
    int64_t rest = e;
    for (int d = ndim - 1; d >= 0; --d) {
      const Dimension& dim = dims[d];
      const int64_t outer = d == 0 ? 0 : dim.size.quotient(rest);
      const int64_t coordinate = rest - outer * dim.size.divisor();
      place.source += coordinate * dim.src_stride;
      place.output += coordinate * dim.out_stride;
      place.slot += coordinate * dim.slot_stride;
      position += coordinate * dim.index_stride;
      if (dim.indexed) place.coordinate = coordinate;
      rest = outer;
    }
    int64_t target = index[position];
    if (target < (wraps ? -dim_size : 0) || target >= dim_size) report_out_of_range(position, target, dim_size);
    target += target < 0 ? dim_size : 0;
    place.output += target * target_stride;
    place.slot += target * slot_stride;
    return place;
  }
};

template <class Slot>
__global__ void __launch_bounds__(kOverwriteThreads)
    overwrite_claim(const __grid_constant__ OverwriteKeys keys, Slot* slots) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const OverwritePlace place = keys.locate(e);
    const Slot mine = static_cast<Slot>(place.coordinate + 1);
    if (*const_cast<const volatile Slot*>(&slots[place.slot]) < mine) atomicMax(&slots[place.slot], mine);
  }
}

// `slots` is nullptr where no two elements can meet.
template <class Element, class Slot>
__global__ void __launch_bounds__(kOverwriteThreads)
    overwrite_copy(const __grid_constant__ OverwriteKeys keys, const Slot* slots, const Element* src, Element* out) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t e = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; e < keys.count; e += step) {
    const OverwritePlace place = keys.locate(e);
    if (slots != nullptr && slots[place.slot] != static_cast<Slot>(place.coordinate + 1)) continue;
    out[place.output] = src[place.source];
  }
}

// All elements; and how many slots they need.
inline OverwriteKeys make_keys(const Overwrite& problem, int64_t& num_slots) {
  OverwriteKeys keys;
  keys.index = {problem.index, problem.index_is_int64};
  keys.wraps = problem.wraps;
  keys.ndim = problem.ndim;
  keys.dim_size = problem.dim_size;
  keys.target_stride = problem.out_strides[problem.dim];
  keys.slot_stride = 1;
  keys.count = problem.num_elements;
  num_slots = problem.dim_size;
  for (int d = problem.ndim - 1; d >= 0; --d) {
    const bool indexed = d == problem.dim;
    const bool has_slots = !indexed && problem.index_strides[d] != 0;
    keys.dims[d] = {Divisor(problem.sizes[d]), problem.src_strides[d], problem.index_strides[d],
                    indexed ? 0 : problem.out_strides[d], has_slots ? num_slots : 0, indexed};
    if (has_slots) num_slots *= problem.sizes[d];
  }
  return keys;
}

// One element for all that share their index.
inline OverwriteKeys claiming(const OverwriteKeys& keys, const Overwrite& problem) {
  OverwriteKeys distinct = keys;
  distinct.ndim = 0;
  distinct.count = 1;
  for (int d = 0; d < keys.ndim; ++d) {
    if (!keys.dims[d].indexed && keys.dims[d].slot_stride == 0) continue;
    distinct.dims[distinct.ndim++] = keys.dims[d];
    distinct.count *= problem.sizes[d];
  }
  return distinct;
}

}  // namespace reprocuda
