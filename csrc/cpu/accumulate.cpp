#include "accumulate.h"

#include <atomic>
#include <limits>
#include <stdexcept>

#include "element_keys.h"
#include "integers.h"
#include "outputs.h"
#include "parallel.h"
#include "plan.h"
#include "rows.h"
#include "workspace.h"

namespace reprocuda::cpu {
namespace {

std::atomic<Algorithm> forced_algorithm{Algorithm::kAuto};
std::atomic<bool> exact_is_forced{false};

bool is_floating(Dtype dtype) { return dtype >= Dtype::kFloat16; }

// Calls function(T{}) with the element type of a floating-point dtype.
template <class Function>
auto with_element(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kFloat16: return function(Half{});
    case Dtype::kBFloat16: return function(BFloat16{});
    case Dtype::kFloat32: return function(float{});
    default: return function(double{});
  }
}

bool fits_int32(int64_t value) { return value < std::numeric_limits<int32_t>::max(); }

template <class T, class Position, class Index>
int64_t sum_by_grouping(const Accumulation& problem, const Index* index) {
  const OwnedGrouping<Position> grouping = group_rows<Index, Position>(index, problem.num_rows, problem.num_targets);
  if (grouping.first_bad < 0) sum_grouped_rows<T, Position>(problem, grouping, exact_is_forced.load());
  return grouping.first_bad;
}

template <class T, class Index>
int64_t sum_by_rows(const Accumulation& problem, const Index* index) {
  if (fits_int32(problem.num_rows) && fits_int32(problem.num_targets)) return sum_by_grouping<T, int32_t>(problem, index);
  return sum_by_grouping<T, int64_t>(problem, index);
}

template <class T>
int64_t accumulate_floats(const Accumulation& problem) {
  if (problem.plan != nullptr) {
    Grouping<int64_t> grouping;
    grouping.permutation = problem.plan->permutation;
    grouping.offsets = problem.plan->offsets;
    grouping.num_segments = problem.num_targets;
    grouping.num_rows = problem.num_rows;
    sum_grouped_rows<T>(problem, grouping, exact_is_forced.load());
    return -1;
  }
  if (problem.index_is_int64) return sum_by_rows<T>(problem, static_cast<const int64_t*>(problem.index));
  return sum_by_rows<T>(problem, static_cast<const int32_t*>(problem.index));
}

template <class T>
int64_t accumulate_floats(const ElementAccumulation& problem) {
  struct Pair {
    T re, im;
  };
  const ElementKeys keys(problem);
  const int64_t bad = keys.first_out_of_range();
  if (bad >= 0) return bad;
  const int64_t count = problem.num_elements;
  int64_t* key = nullptr;
  Pair* value = nullptr;
  const int64_t inner = problem.complex_pairs ? 2 : 1;
  const Workspace memory = lease([&](Layout& layout) {
    key = layout.take<int64_t>(count);
    value = layout.take<Pair>(count);
  });
  T* const values = reinterpret_cast<T*>(value);
  int64_t e = 0;
  if (problem.complex_pairs) {
    keys.for_each<Pair>(0, count, [&](int64_t k, Pair x) { key[e] = k; value[e++] = x; });
  } else {
    keys.for_each<T>(0, count, [&](int64_t k, T x) { key[e] = k; values[e++] = x; });
  }
  Accumulation rows;
  rows.dtype = problem.dtype;
  rows.complex_pairs = problem.complex_pairs;
  rows.out = problem.out;
  rows.self = problem.self;
  rows.src = value;
  rows.index = key;
  rows.num_targets = problem.num_out;
  rows.num_rows = count;
  rows.inner = inner;
  return accumulate_floats<T>(rows);
}

bool has_outputs(const Accumulation& problem) { return problem.outer > 0 && problem.num_targets > 0 && problem.inner > 0; }

}  // namespace

void set_forced_algorithm(Algorithm algorithm) { forced_algorithm.store(algorithm); }
void set_force_exact(bool force) { exact_is_forced.store(force); }

int64_t accumulate(const Accumulation& problem) {
  if (problem.num_rows == 0 || !has_outputs(problem)) {
    // Without outputs an index can still be out of range.
    const int64_t bad = problem.plan != nullptr ? -1
                                                : first_out_of_range(problem.index, problem.index_is_int64, problem.num_rows,
                                                                     0, problem.num_targets);
    if (bad < 0 && has_outputs(problem)) fill_untouched(problem);
    return bad;
  }
  if (!is_floating(problem.dtype)) return accumulate_integers(problem);
  return with_element(problem.dtype, [&](auto element) { return accumulate_floats<decltype(element)>(problem); });
}

int64_t accumulate(const ElementAccumulation& problem) {
  if (problem.num_elements == 0) {
    fill_untouched(problem.out, problem.self, problem.num_out * dtype_size(problem.dtype) * (problem.complex_pairs ? 2 : 1));
    return -1;
  }
  if (!is_floating(problem.dtype)) return accumulate_integers(problem);
  return with_element(problem.dtype, [&](auto element) { return accumulate_floats<decltype(element)>(problem); });
}

}  // namespace reprocuda::cpu
