#include "linearize.h"

#include <algorithm>

#include "index_checks.h"
#include "parallel.h"

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

// One dense int64 vector, the usual case, without the odometer.
int64_t wrap_range(const int64_t* index, int64_t size, int64_t* keys, int64_t begin, int64_t end) {
  bool all_good = true;
  for (int64_t position = begin; position < end; ++position) {
    const int64_t value = index[position] + (index[position] < 0 ? size : 0);
    all_good &= static_cast<uint64_t>(value) < static_cast<uint64_t>(size);
    keys[position] = value;
  }
  if (all_good) {
    return end;
  }
  return std::find_if(index + begin, index + end, [&](int64_t value) { return value < -size || value >= size; }) - index;
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

}  // namespace

int64_t linearize(const IndexLinearization& problem) {
  const bool simple = problem.num_indices == 1 && problem.is_int64[0] && is_dense(problem, 0);
  FirstPosition bad;
  parallel_for(0, problem.num_elements, kGrain, [&](int64_t begin, int64_t end) {
    const int64_t stop = simple ? wrap_range(static_cast<const int64_t*>(problem.indices[0]), problem.dim_sizes[0],
                                             problem.keys, begin, end)
                                : linearize_range(problem, begin, end);
    if (stop < end) bad.note(stop);
  });
  return bad.get();
}

}  // namespace reprocuda::cpu
