// The canonical problems of reductions by index: what an operator is reduced to before a backend sees it.
//
// An operator family in ops/ checks its arguments, makes its tensors contiguous and fills in one of the structs in this
// folder; the backends in cpu/ and cuda/ know nothing of torch, dimensions or autograd. No struct owns memory.
#pragma once

#include <cstdint>

#include "../numerics/dtype.h"
#include "dims.h"

namespace reprocuda {

// The factor on every contribution. `real` and `imag` are already rounded to the op-math type (fp32 for 16- and 32-bit
// floats); `integer` serves the integer dtypes, which wrap around. `imag` is nonzero only with `complex_pairs`.
struct Alpha {
  bool is_one = true;
  double real = 1.0;
  double imag = 0.0;
  int64_t integer = 1;
};

// What becomes of the contributions to one output. kMean divides by their exact number, `self` counted where it is one.
enum class Reduction : int8_t {
  kSum,
  kMean,
  kProd,
  kAmax,
  kAmin,
};

// A stable grouping of source rows by target.
struct Plan {
  const int64_t* permutation = nullptr;  // [num_rows] source rows, grouped by target; nullptr: the rows are sorted already
  const int64_t* offsets = nullptr;      // [num_targets + 1]
};

// out[o, t, f] = round_once(reduction of self[o, t, f] and alpha * src[o, i, f] over all i with index[i] == t).
// A target without such an i keeps `self` bit for bit. Only sums have an alpha or complex pairs.
struct Accumulation {
  Dtype dtype = Dtype::kFloat32;
  bool complex_pairs = false;     // `inner` counts reals: (re, im) interleaved
  void* out = nullptr;            // [outer, num_targets, inner]; may be `self` itself, never a partial overlap
  const void* self = nullptr;     // [outer, num_targets, inner]; nullptr: no such contribution, untouched targets become +0
  bool include_self = true;       // whether `self` is a contribution, or only what untouched targets keep
  Reduction reduction = Reduction::kSum;
  const void* src = nullptr;      // [outer, num_rows, inner]
  const void* index = nullptr;    // [num_rows], shared by all `outer`; nullptr when `plan` is given
  bool index_is_int64 = true;
  const Plan* plan = nullptr;
  int64_t outer = 1;
  int64_t num_targets = 0;
  int64_t num_rows = 0;
  int64_t inner = 1;
  Alpha alpha;
  int64_t ignored_target = -1;    // rows aimed here are skipped (padding_idx)

  bool mean() const { return reduction == Reduction::kMean; }
  // `self` where it is a contribution, else nullptr.
  const void* start() const { return include_self ? self : nullptr; }
};

// Element-wise index: out[key(e)] takes in src[e] for every element e of `sizes`, where
// key(e) = sum over d != dim of coordinate_d(e) * out_strides[d], plus index[e] * out_strides[dim].
// Strides count elements (pairs when `complex_pairs`). `out` and `self` are dense, with `num_out` elements.
struct ElementAccumulation {
  Dtype dtype = Dtype::kFloat32;
  bool complex_pairs = false;
  void* out = nullptr;            // [num_out]; may be `self` itself
  const void* self = nullptr;     // [num_out] or nullptr
  bool include_self = true;
  Reduction reduction = Reduction::kSum;
  const void* src = nullptr;      // sizes, src_strides
  const void* index = nullptr;    // sizes, index_strides
  bool index_is_int64 = true;
  int ndim = 0;
  int dim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t src_strides[kMaxDims] = {};
  int64_t index_strides[kMaxDims] = {};
  int64_t out_strides[kMaxDims] = {};
  int64_t dim_size = 0;           // bound of the index
  int64_t num_out = 0;
  int64_t num_elements = 0;

  bool mean() const { return reduction == Reduction::kMean; }
  const void* start() const { return include_self ? self : nullptr; }
};

// The sums that have no `self` to count or to leave out: what every algorithm serves.
template <class Problem>
bool is_plain_sum(const Problem& problem) {
  if (problem.reduction == Reduction::kMean) return problem.self == nullptr;
  return problem.reduction == Reduction::kSum && (problem.include_self || problem.self == nullptr);
}

// How a by-index problem is solved. kAuto chooses by shape; all give the same bits.
enum class Algorithm : int8_t {
  kAuto,
  kRows,        // stable grouping by target, then one reduction a segment
  kBins,        // private accumulators for every output, one set a worker
  kPartition,   // CPU: keys and values split into cache-sized ranges of targets
  kFixedPoint,  // CUDA: integer fixed point, no sort
  kSmall,       // one kernel or one thread for small inputs
};

}  // namespace reprocuda
