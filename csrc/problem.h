// The canonical problems: what every operator is reduced to before a backend sees it. Reductions by index are one of the two
// accumulations, plain writes an overwrite.
//
// An operator family in ops/ checks its arguments, makes its tensors contiguous and fills in one of these structs; the
// backends in cpu/ and cuda/ know nothing of torch, dimensions or autograd. No struct owns memory.
#pragma once

#include <cstdint>

#include "numerics/fingerprint.h"

namespace reprocuda {

enum class Dtype : int8_t {
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

inline bool is_floating_point(Dtype dtype) { return dtype >= Dtype::kFloat16; }

inline int64_t element_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8:
    case Dtype::kBool: return 1;
    case Dtype::kInt16:
    case Dtype::kFloat16:
    case Dtype::kBFloat16: return 2;
    case Dtype::kInt32:
    case Dtype::kFloat32: return 4;
    case Dtype::kInt64:
    case Dtype::kFloat64: return 8;
  }
  return 0;
}

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

inline constexpr int kMaxDims = 16;

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

// Plain writes through an index: out[place(e)] = src[e] for every element e of `sizes`, bit for bit, where
// place(e) = sum over d != dim of coordinate_d(e) * out_strides[d], plus index[e] * out_strides[dim].
// Of several elements with one place that with the largest coordinate along `dim` stands. Elements that differ in any other
// coordinate have different places: whoever fills this in sees to it. Strides count elements and may be 0 in src (a value
// that is broadcast) and index (rows).
struct Overwrite {
  int element_bytes = 1;          // 1, 2, 4, 8 or 16
  void* out = nullptr;            // out_strides; keeps what nothing is written over
  const void* src = nullptr;      // sizes, src_strides
  const void* index = nullptr;    // sizes, index_strides
  bool index_is_int64 = true;
  bool wraps = false;             // a negative index counts from the end
  int ndim = 0;                   // at least 1
  int dim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t src_strides[kMaxDims] = {};
  int64_t index_strides[kMaxDims] = {};
  int64_t out_strides[kMaxDims] = {};
  int64_t dim_size = 0;           // bound of the index
  int64_t num_elements = 0;

  // No two elements have one place.
  bool has_no_duplicates() const { return sizes[dim] <= 1; }
};

// Several index tensors, broadcast against each other, turned into one row number:
// keys[e] = sum over k of wrap(index_k[e], dim_sizes[k]) * multipliers[k], where wrap adds the size to a negative index.
struct IndexLinearization {
  int num_indices = 0;
  const void* indices[kMaxDims] = {};              // each of `sizes`, strides[k]
  bool is_int64[kMaxDims] = {};
  int64_t strides[kMaxDims][kMaxDims] = {};
  int64_t dim_sizes[kMaxDims] = {};
  int64_t multipliers[kMaxDims] = {};
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t num_elements = 1;
  int64_t* keys = nullptr;                         // [num_elements]
};

// The bits of a tensor to be hashed, in row-major order (numerics/fingerprint.h). Neighbouring dimensions that one stride
// serves are merged; a contiguous tensor has at most one.
struct FingerprintProblem {
  const void* data = nullptr;
  int element_bytes = 1;                           // 1, 2, 4, 8 or 16
  bool is_bool = false;                            // bytes count as 0 or not 0
  int ndim = 0;
  int64_t sizes[kMaxDims] = {};
  int64_t strides[kMaxDims] = {};                  // in elements
  int64_t num_elements = 1;
  Fingerprint header = {};

  bool is_contiguous() const { return ndim == 0 || (ndim == 1 && strides[0] == 1); }
  int64_t num_blocks() const {
    return (num_elements * element_bytes + kFingerprintBlockBytes - 1) / kFingerprintBlockBytes;
  }
};

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
