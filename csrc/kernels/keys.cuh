// Where a contribution comes from and which output it is added to.
//
// Both canonical problems are seen as one list of scalar contributions, numbered 0 .. count - 1 in memory order of the source
// where that is dense; `locate` maps a number to (source offset, output offset). Complex numbers are two scalars. A key
// object is a kernel parameter: plain data, no memory of its own.
//
// Guarantee: an index outside its range is printed and traps; locate never returns an output outside [0, num_outputs).
// Cost: one load of the index and, for each dimension but the outermost, one division, which is a multiplication and a
// shift where the operands are below 2^31.
#pragma once

#include <cstdio>

#include "../problems/accumulation.h"
#include "device.cuh"

namespace reprocuda {

// Out of line: a division of 64 bits is a hundred instructions.
__attribute__((noinline)) __device__ inline int64_t divide_slowly(int64_t n, int64_t divisor) { return n / divisor; }

// Division of nonnegative numbers by a number fixed before the launch.
class Divisor {
 public:
  Divisor() = default;
  explicit Divisor(int64_t divisor) : divisor_(divisor > 0 ? divisor : 1) {
    divisor = divisor_;
    while (shift_ < 31 && (int64_t{1} << shift_) < divisor) ++shift_;
    if (divisor >> 31 == 0) {
      // ceil(2^(32 + shift) / divisor) - 2^32, which is exact enough for numerators below 2^31
      magic_ = static_cast<uint32_t>(((uint64_t{1} << 32) * ((uint64_t{1} << shift_) - static_cast<uint64_t>(divisor))) /
                                         static_cast<uint64_t>(divisor) + 1);
    }
  }

  __device__ int64_t quotient(int64_t n) const {
    if (((n | divisor_) >> 31) != 0) return divide_slowly(n, divisor_);
    const uint32_t numerator = static_cast<uint32_t>(n);
    const uint32_t high = static_cast<uint32_t>((static_cast<uint64_t>(numerator) * magic_) >> 32);
    return (high + numerator) >> shift_;
  }

  __device__ int64_t divisor() const { return divisor_; }

 private:
  int64_t divisor_ = 1;
  uint32_t magic_ = 1;
  uint32_t shift_ = 0;
};

struct IndexArray {
  const void* data = nullptr;
  bool is_int64 = true;

  __device__ int64_t operator[](int64_t i) const {
    return is_int64 ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Does not return.
__attribute__((noinline)) __device__ inline void report_out_of_range(int64_t position, int64_t value, int64_t size) {
  printf("reprocuda: index %lld at position %lld is out of bounds for size %lld\n", static_cast<long long>(value),
         static_cast<long long>(position), static_cast<long long>(size));
  __trap();
}

struct Place {
  int64_t source;  // offset into src
  int64_t output;  // offset into out; -1: this contribution is skipped
  int64_t target;  // whose count it raises, or -1: only one scalar of a row raises a count
};

// Rows: contribution ((o * num_rows) + i) * inner + f goes to output ((o * num_targets) + index[i]) * inner + f.
struct RowKeys {
  IndexArray index;        // [num_rows]
  Divisor rows;
  Divisor inner;
  int64_t num_targets = 0;
  int64_t ignored_target = -1;
  int64_t count = 0;        // outer * num_rows * inner
  int64_t num_outputs = 0;  // outer * num_targets * inner
  bool scalar_rows = false; // outer == inner == 1

  __device__ Place locate(int64_t e) const {
    if (scalar_rows) {
      const int64_t target = checked_target(e);
      return target == ignored_target ? Place{e, -1, -1} : Place{e, target, target};
    }
    const int64_t slab_row = inner.quotient(e);
    const int64_t feature = e - slab_row * inner.divisor();
    const int64_t slab = rows.quotient(slab_row);
    const int64_t row = slab_row - slab * rows.divisor();
    const int64_t target = checked_target(row);
    if (target == ignored_target) return {e, -1, -1};
    return {e, (slab * num_targets + target) * inner.divisor() + feature, (slab | feature) == 0 ? target : -1};
  }

  __device__ int64_t checked_target(int64_t row) const {
    const int64_t target = index[row];
    if (target < 0 || target >= num_targets) report_out_of_range(row, target, num_targets);
    return target;
  }

  __device__ int64_t source(int64_t e) const { return e; }

  // The target that output `f` belongs to.
  __device__ int64_t target_of(int64_t f) const {
    if (scalar_rows) return f;
    const int64_t slab_target = inner.quotient(f);
    return slab_target % num_targets;
  }
};

// Elements: every element of a strided array has an index of its own.
struct ElementKeys {
  struct Dimension {
    Divisor size;
    int64_t src_stride = 0;
    int64_t index_stride = 0;
    int64_t out_stride = 0;  // 0 for the dimension that the index replaces
  };
  static constexpr int kMaxKeyDims = kMaxDims + 1;  // one more for the two parts of a complex number

  IndexArray index;
  int ndim = 0;
  int scalars = 1;           // 2: complex
  int64_t target_stride = 1;
  int64_t dim_size = 0;
  int64_t count = 0;
  int64_t num_outputs = 0;
  Dimension dims[kMaxKeyDims];

  __device__ Place locate(int64_t e) const {
    int64_t rest = e;
    int64_t source = 0;
    int64_t position = 0;
    int64_t output = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      const Dimension& dim = dims[d];
      const int64_t outer = d == 0 ? 0 : dim.size.quotient(rest);
      const int64_t coordinate = rest - outer * dim.size.divisor();
      source += coordinate * dim.src_stride;
      position += coordinate * dim.index_stride;
      output += coordinate * dim.out_stride;
      rest = outer;
    }
    const int64_t target = index[position];
    if (target < 0 || target >= dim_size) report_out_of_range(e / scalars, target, dim_size);
    const int64_t place = output + target * target_stride;
    return {source, place, place};
  }

  __device__ int64_t source(int64_t e) const {
    int64_t rest = e;
    int64_t offset = 0;
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t outer = d == 0 ? 0 : dims[d].size.quotient(rest);
      offset += (rest - outer * dims[d].size.divisor()) * dims[d].src_stride;
      rest = outer;
    }
    return offset;
  }

  // Every output is counted for itself.
  __device__ int64_t target_of(int64_t f) const { return f; }
};

inline RowKeys make_keys(const Accumulation& problem) {
  RowKeys keys;
  keys.index = {problem.index, problem.index_is_int64};
  keys.rows = Divisor(problem.num_rows);
  keys.inner = Divisor(problem.inner);
  keys.num_targets = problem.num_targets;
  keys.ignored_target = problem.ignored_target;
  keys.count = problem.outer * problem.num_rows * problem.inner;
  keys.num_outputs = problem.outer * problem.num_targets * problem.inner;
  keys.scalar_rows = problem.outer == 1 && problem.inner == 1;
  return keys;
}

inline ElementKeys make_keys(const ElementAccumulation& problem) {
  ElementKeys keys;
  keys.index = {problem.index, problem.index_is_int64};
  keys.scalars = problem.complex_pairs ? 2 : 1;
  keys.ndim = problem.ndim;
  for (int d = 0; d < problem.ndim; ++d) {
    const bool indexed = d == problem.dim;
    keys.dims[d] = {Divisor(problem.sizes[d]), problem.src_strides[d] * keys.scalars, problem.index_strides[d],
                    indexed ? 0 : problem.out_strides[d] * keys.scalars};
  }
  keys.target_stride = problem.out_strides[problem.dim] * keys.scalars;
  if (problem.complex_pairs) keys.dims[keys.ndim++] = {Divisor(2), 1, 0, 1};
  keys.dim_size = problem.dim_size;
  keys.count = problem.num_elements * keys.scalars;
  keys.num_outputs = problem.num_out * keys.scalars;
  return keys;
}

// A bound on the contributions to one output.
inline int64_t most_contributions(const Accumulation& problem) { return problem.num_rows; }

// Where distinct coordinates outside `dim` always lead to distinct outputs, only those along `dim` can meet.
inline int64_t most_contributions(const ElementAccumulation& problem) {
  bool placed[kMaxDims] = {};
  int64_t reach = 0;  // the largest offset that the dimensions seen so far lead to
  for (int step = 0; step < problem.ndim; ++step) {
    int next = -1;
    for (int d = 0; d < problem.ndim; ++d) {
      if (!placed[d] && (next < 0 || problem.out_strides[d] < problem.out_strides[next])) next = d;
    }
    placed[next] = true;
    const int64_t size = next == problem.dim ? problem.dim_size : problem.sizes[next];
    if (size == 1) continue;
    if (problem.out_strides[next] <= reach) return problem.num_elements;
    reach += (size - 1) * problem.out_strides[next];
  }
  return problem.ndim == 0 ? problem.num_elements : problem.sizes[problem.dim];
}

}  // namespace reprocuda
