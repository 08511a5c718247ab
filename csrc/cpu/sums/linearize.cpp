#include "linearize.h"

#include <algorithm>

#include "../index_checks.h"
#include "../parallel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kGrain = 1 << 14;  // keys a thread should have at least

int64_t load(const void* index, bool is_int64, int64_t offset) {
  return is_int64 ? static_cast<const int64_t*>(index)[offset] : static_cast<const int32_t*>(index)[offset];
}

// The keys of positions [begin, end); returns the first bad position in them, or `end`.
int64_t linearize_range(const IndexLinearization& problem, int64_t begin, int64_t end) {
  int64_t coordinates[kMaxDims] = {};
  int64_t rest = begin;
  for (int d = problem.ndim; d-- > 0;) {
    coordinates[d] = rest % problem.sizes[d];
    rest /= problem.sizes[d];
  }
  for (int64_t position = begin; position < end; ++position) {
    int64_t key = 0;
    for (int k = 0; k < problem.num_indices; ++k) {
      int64_t offset = 0;
      for (int d = 0; d < problem.ndim; ++d) {
        offset += coordinates[d] * problem.strides[k][d];
      }
      const int64_t size = problem.dim_sizes[k];
      int64_t value = load(problem.indices[k], problem.is_int64[k], offset);
      value += value < 0 ? size : 0;
      if (value < 0 || value >= size) {
        return position;
      }
      key += value * problem.multipliers[k];
    }
    problem.keys[position] = key;
    for (int d = problem.ndim; d-- > 0;) {
      if (++coordinates[d] < problem.sizes[d]) {
        break;
      }
      coordinates[d] = 0;
    }
  }
  return end;
}

bool is_dense(const IndexLinearization& problem, int k) {
  int64_t stride = 1;
  for (int d = problem.ndim; d-- > 0;) {
    if (problem.sizes[d] != 1 && problem.strides[k][d] != stride) {
      return false;
    }
    stride *= problem.sizes[d];
  }
  return true;
}

// Dense int64 tensors, the usual case, without the odometer.
int64_t linearize_dense(const IndexLinearization& problem, int64_t begin, int64_t end) {
  constexpr int64_t kPiece = 1 << 11;  // keys that stay in the nearest cache from one index to the next
  for (int64_t first = begin; first < end; first += kPiece) {
    const int64_t last = std::min(end, first + kPiece);
    bool all_good = true;
    for (int k = 0; k < problem.num_indices; ++k) {
      const int64_t* const index = static_cast<const int64_t*>(problem.indices[k]);
      const int64_t size = problem.dim_sizes[k];
      const int64_t multiplier = problem.multipliers[k];
      OutsideRange outside(-size, size);
      for (int64_t position = first; position < last; ++position) {
        const int64_t key = (index[position] + (index[position] < 0 ? size : 0)) * multiplier;
        outside.look_at(index[position]);
        problem.keys[position] = k == 0 ? key : problem.keys[position] + key;
      }
      all_good &= !outside.any();
    }
    if (!all_good) return linearize_range(problem, first, last);
  }
  return end;
}

}  // namespace

int64_t linearize(const IndexLinearization& problem) {
  bool simple = true;
  for (int k = 0; k < problem.num_indices; ++k) simple = simple && problem.is_int64[k] && is_dense(problem, k);
  FirstPosition bad;
  parallel_for(0, problem.num_elements, kGrain, [&](int64_t begin, int64_t end) {
    const int64_t stop = simple ? linearize_dense(problem, begin, end) : linearize_range(problem, begin, end);
    if (stop < end) bad.note(stop);
  });
  return bad.get();
}

}  // namespace reprocuda::cpu
