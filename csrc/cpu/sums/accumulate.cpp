#include "accumulate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <optional>
#include <stdexcept>

#include "../parallel.h"
#include "../workspace.h"
#include "bins.h"
#include "element_keys.h"
#include "elements.h"
#include "fixed_bins.h"
#include "integers.h"
#include "outputs.h"
#include "partition.h"
#include "plan.h"
#include "rows.h"

namespace reprocuda::cpu {
namespace {

std::atomic<Algorithm> forced_algorithm{Algorithm::kAuto};
std::atomic<FirstStage> first_stage{FirstStage::kFilter};

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

// How to solve a problem, and with how many threads at most.
struct Choice {
  Algorithm algorithm;
  int max_workers;
};

constexpr int kAllWorkers = std::numeric_limits<int>::max();
constexpr int64_t kElementsPerCopier = 1 << 15;
constexpr int64_t kMostElementBins = 1 << 16;   // a set of 1 MiB
constexpr int64_t kSmallElements = 1 << 13;     // below this waking a second thread costs more than it saves
constexpr int64_t kShortSlice = 12;             // rows and targets up to which cells of its own cost a slice more

template <class T, class Position, class Index>
int64_t sum_by_grouping(const Accumulation& problem, const Index* index) {
  const OwnedGrouping<Position> grouping = group_rows<Index, Position>(index, problem.num_rows, problem.num_targets);
  if (grouping.first_bad < 0) sum_grouped_rows<T, Position>(problem, grouping, first_stage.load());
  return grouping.first_bad;
}

template <class T, class Index>
int64_t sum_by_rows(const Accumulation& problem, const Index* index) {
  if (fits_int32(problem.num_rows) && fits_int32(problem.num_targets)) return sum_by_grouping<T, int32_t>(problem, index);
  return sum_by_grouping<T, int64_t>(problem, index);
}

template <class T, class Index>
int64_t sum_slices_by_partition(const Accumulation& problem, const Index* index, int max_workers) {
  if (problem.inner != 1) throw std::runtime_error("the partition algorithm reduces one column");
  for (int64_t slice = 0; slice < problem.outer; ++slice) {
    const T* const self = static_cast<const T*>(problem.self);
    const PartitionProblem<T> one{self == nullptr ? nullptr : self + slice * problem.num_targets,
                                  problem.include_self,
                                  problem.reduction,
                                  static_cast<T*>(problem.out) + slice * problem.num_targets,
                                  problem.num_targets,
                                  problem.num_rows,
                                  problem.num_rows,
                                  problem.alpha,
                                  first_stage.load(),
                                  max_workers};
    const IndexedValues<T, Index> values(index, static_cast<const T*>(problem.src) + slice * problem.num_rows,
                                         problem.num_targets, problem.ignored_target);
    const int64_t bad = sum_by_partition(one, values);
    if (bad >= 0) return bad;
  }
  return -1;
}

// Rows a target from which on a sorted column goes segment by segment. Short segments cost a wrong guess at their length
// each; long ones make a cell wait for itself, and the two-sums of fp64 wait longer.
int64_t long_run(const Accumulation& problem) {
  if (problem.dtype == Dtype::kFloat64) return 4;
  return bins_fit(problem) ? 32 : 12;
}

// How many targets a sorted index can name.
template <class Index>
uint64_t sorted_span(const Accumulation& problem, const Index* index) {
  const uint64_t first = static_cast<uint64_t>(int64_t{index[0]});
  const uint64_t span = static_cast<uint64_t>(int64_t{index[problem.num_rows - 1]}) - first + 1;
  return std::min(span, static_cast<uint64_t>(problem.num_targets));
}

template <class Index>
Choice choose(const Accumulation& problem, const Index* index) {
  const Algorithm forced = forced_algorithm.load();
  if (forced != Algorithm::kAuto) return {forced, kAllWorkers};
  const int64_t elements = problem.outer * problem.num_rows * problem.inner;
  const bool few_targets = bins_fit(problem) && problem.num_targets <= 4 * problem.num_rows;
  if (problem.inner == 1 && few_targets && elements <= kSmallElements) return {Algorithm::kBins, 1};
  const bool dense = problem.num_targets <= problem.num_rows;  // else to look for the segments costs more than to sum them
  const bool long_runs = dense && static_cast<uint64_t>(problem.num_rows / long_run(problem)) >= sorted_span(problem, index);
  if (problem.inner == 1 && long_runs && is_sorted_index(index, problem.num_rows)) return {Algorithm::kRows, kAllWorkers};
  if (bins_pay(problem)) return {Algorithm::kBins, kAllWorkers};
  if (problem.inner == 1 && problem.num_targets <= 8 * problem.num_rows) return {Algorithm::kPartition, kAllWorkers};
  return {Algorithm::kRows, kAllWorkers};
}

// Many slices of one column, too short for cells of their own.
bool has_short_slices(const Accumulation& problem) {
  return problem.inner == (problem.complex_pairs ? 2 : 1) && problem.outer > 1 && problem.ignored_target < 0 &&
         (problem.alpha.is_one || !problem.complex_pairs) && problem.num_rows + problem.num_targets <= kShortSlice &&
         problem.num_targets <= 8 * problem.num_rows;
}

ElementAccumulation as_elements(const Accumulation& problem) {
  ElementAccumulation elements;
  elements.dtype = problem.dtype;
  elements.complex_pairs = problem.complex_pairs;
  elements.out = problem.out;
  elements.self = problem.self;
  elements.include_self = problem.include_self;
  elements.reduction = problem.reduction;
  elements.src = problem.src;
  elements.index = problem.index;
  elements.index_is_int64 = problem.index_is_int64;
  elements.ndim = 2;
  elements.dim = 1;
  elements.sizes[0] = problem.outer;
  elements.sizes[1] = problem.num_rows;
  elements.src_strides[0] = problem.num_rows;
  elements.src_strides[1] = 1;
  elements.index_strides[0] = 0;
  elements.index_strides[1] = 1;
  elements.out_strides[0] = problem.num_targets;
  elements.out_strides[1] = 1;
  elements.dim_size = problem.num_targets;
  elements.num_out = problem.outer * problem.num_targets;
  elements.num_elements = problem.outer * problem.num_rows;
  return elements;
}

template <class T>
int64_t sum_elements_by_partition(const ElementAccumulation& problem, const ElementKeys& keys, const Alpha& alpha,
                                  int max_workers) {
  const int64_t parts = problem.complex_pairs ? 2 : 1;
  const PartitionProblem<T> partition{static_cast<const T*>(problem.self),
                                      problem.include_self,
                                      problem.reduction,
                                      static_cast<T*>(problem.out),
                                      problem.num_out * parts,
                                      problem.num_elements,
                                      problem.num_elements * parts,
                                      alpha,
                                      first_stage.load(),
                                      max_workers};
  return sum_by_partition(partition, ElementValues<T>(keys, problem.complex_pairs));
}

// Where nothing is forced, of which the tests make use.
template <class Index>
std::optional<int64_t> sum_in_integers(const Accumulation& problem, const Index* index) {
  const bool is_auto = forced_algorithm.load() == Algorithm::kAuto && first_stage.load() == FirstStage::kFilter;
  return is_auto && may_sum_in_fixed_bins(problem) ? sum_in_fixed_bins(problem, index) : std::nullopt;
}

template <class T, class Index>
int64_t accumulate_indexed(const Accumulation& problem, const Index* index) {
  if (forced_algorithm.load() == Algorithm::kAuto && has_short_slices(problem)) {
    const ElementAccumulation elements = as_elements(problem);
    return sum_elements_by_partition<T>(elements, ElementKeys(elements), problem.alpha, kAllWorkers);
  }
  const Choice choice = choose(problem, index);
  switch (choice.algorithm) {
    case Algorithm::kBins:
    case Algorithm::kSmall:
      if (!bins_fit(problem)) throw std::runtime_error("too many outputs for private bins");
      if (const auto done = sum_in_integers(problem, index)) return *done;
      return sum_in_bins<T>(problem, index, first_stage.load(), choice.algorithm == Algorithm::kSmall ? 1 : choice.max_workers);
    case Algorithm::kPartition: return sum_slices_by_partition<T>(problem, index, choice.max_workers);
    case Algorithm::kFixedPoint: throw std::runtime_error("the fixed-point algorithm exists on CUDA only");
    default: return sum_by_rows<T>(problem, index);
  }
}

template <class T>
void sum_by_plan(const Accumulation& problem, const double* weights) {
  Grouping<int64_t> grouping;
  grouping.permutation = problem.plan->permutation;
  grouping.offsets = problem.plan->offsets;
  grouping.weights = weights;
  grouping.num_segments = problem.num_targets;
  grouping.num_rows = problem.num_rows;
  sum_grouped_rows<T>(problem, grouping, first_stage.load());
}

template <class T>
int64_t accumulate_floats(const Accumulation& problem) {
  if (problem.plan != nullptr) {
    sum_by_plan<T>(problem, nullptr);
    return -1;
  }
  if (problem.index_is_int64) return accumulate_indexed<T>(problem, static_cast<const int64_t*>(problem.index));
  return accumulate_indexed<T>(problem, static_cast<const int32_t*>(problem.index));
}

// A row for every element, right as it is where the index names the targets themselves.
Accumulation as_rows(const ElementAccumulation& problem) {
  Accumulation rows;
  rows.dtype = problem.dtype;
  rows.complex_pairs = problem.complex_pairs;
  rows.out = problem.out;
  rows.self = problem.self;
  rows.include_self = problem.include_self;
  rows.reduction = problem.reduction;
  rows.src = problem.src;
  rows.index = problem.index;
  rows.index_is_int64 = problem.index_is_int64;
  rows.num_targets = problem.num_out;
  rows.num_rows = problem.num_elements;
  rows.inner = problem.complex_pairs ? 2 : 1;
  return rows;
}

// The element-wise problem as one of rows: keys and values side by side. For few elements and many outputs.
template <class T, class Key>
int64_t sum_elements_by_rows(const ElementAccumulation& problem, const ElementKeys& keys) {
  const int64_t bad = keys.first_out_of_range();
  if (bad >= 0) return bad;
  Accumulation rows = as_rows(problem);
  Key* key = nullptr;
  T* values = nullptr;
  const Workspace memory = lease([&](Layout& layout) {
    key = layout.take<Key>(rows.num_rows);
    values = layout.take<T>(rows.num_rows * rows.inner);
  });
  const int workers = workers_for(rows.num_rows, kElementsPerCopier);
  run_tasks(workers, workers, [&](int, int64_t part) {
    const int64_t end = part_begin(rows.num_rows, workers, part + 1);
    int64_t next = part_begin(rows.num_rows, workers, part);
    if (problem.complex_pairs) {
      keys.for_each<std::array<T, 2>>(next, end, [&](int64_t at, std::array<T, 2> pair) {
        key[next] = static_cast<Key>(at);
        std::copy_n(pair.data(), 2, values + 2 * next++);
      });
    } else {
      keys.for_each<T>(next, end, [&](int64_t at, T value) {
        key[next] = static_cast<Key>(at);
        values[next++] = value;
      });
    }
  });
  rows.src = values;
  return sum_by_rows<T>(rows, key);
}

bool element_bins_fit(const ElementAccumulation& problem) {
  return problem.num_out <= kMostElementBins / (problem.complex_pairs ? 2 : 1);
}

Choice choose(const ElementAccumulation& problem) {
  const Algorithm forced = forced_algorithm.load();
  if (forced != Algorithm::kAuto) return {forced, kAllWorkers};
  const bool fit = element_bins_fit(problem);
  if (fit && problem.num_elements <= kSmallElements && problem.num_out <= 4 * problem.num_elements) {
    return {Algorithm::kBins, 1};
  }
  if (fit && problem.num_out <= problem.num_elements) return {Algorithm::kBins, kAllWorkers};
  if (problem.num_out <= 8 * problem.num_elements) return {Algorithm::kPartition, kAllWorkers};
  return {Algorithm::kRows, kAllWorkers};
}

// One dimension of reals, all contiguous: the index names the target itself.
bool is_plain_index(const ElementAccumulation& problem, const ElementKeys& keys) {
  return !problem.complex_pairs && keys.ndim() == 1 && keys.key_stride() == 0 && keys.index_scale() == 1 &&
         keys.index_stride() == 1 && keys.src_stride() == 1 && problem.dim_size == problem.num_out;
}

// Adds in place, and what that has lost, exactly.
template <class T>
int64_t accumulate_thinly(const ElementAccumulation& problem, const ElementKeys& keys) {
  const int64_t bad = keys.first_out_of_range();
  if (bad >= 0) return bad;
  const LostParts<T> lost = add_with_losses<T>(problem, keys, kAllWorkers);
  if (lost.keys.empty()) return -1;
  Accumulation rest;
  rest.dtype = problem.dtype;
  rest.out = problem.out;
  rest.self = problem.out;
  rest.src = lost.values.data();
  rest.index = lost.keys.data();
  rest.index_is_int64 = true;
  rest.num_targets = problem.num_out;
  rest.num_rows = static_cast<int64_t>(lost.keys.size());
  return accumulate_floats<T>(rest);
}

template <class T>
int64_t accumulate_floats(const ElementAccumulation& problem) {
  const ElementKeys keys(problem);
  if (is_plain_index(problem, keys)) return accumulate_floats<T>(as_rows(problem));
  const FirstStage stage = first_stage.load();
  const Choice choice = choose(problem);
  const int max_workers = choice.algorithm == Algorithm::kSmall ? 1 : choice.max_workers;
  const bool is_auto = forced_algorithm.load() == Algorithm::kAuto;
  if ((is_auto || choice.algorithm == Algorithm::kSmall) && are_independent_rows(problem, keys)) {
    const int64_t bad = keys.first_out_of_range();
    if (bad < 0) sum_independent_rows<T>(problem, keys, stage, max_workers);
    return bad;
  }
  if (is_auto && stage == FirstStage::kFilter && are_scattered_thinly(problem, keys)) {
    return accumulate_thinly<T>(problem, keys);
  }
  switch (choice.algorithm) {
    case Algorithm::kBins:
    case Algorithm::kSmall:
      if (!element_bins_fit(problem)) throw std::runtime_error("too many outputs for private bins");
      return sum_elements_in_bins<T>(problem, keys, stage, max_workers);
    case Algorithm::kPartition: return sum_elements_by_partition<T>(problem, keys, Alpha{}, max_workers);
    case Algorithm::kFixedPoint: throw std::runtime_error("the fixed-point algorithm exists on CUDA only");
    default:
      return fits_int32(problem.num_out) ? sum_elements_by_rows<T, int32_t>(problem, keys)
                                         : sum_elements_by_rows<T, int64_t>(problem, keys);
  }
}

bool has_outputs(const Accumulation& problem) { return problem.outer > 0 && problem.num_targets > 0 && problem.inner > 0; }

}  // namespace

void set_forced_algorithm(Algorithm algorithm) { forced_algorithm.store(algorithm); }
void set_first_stage(FirstStage stage) { first_stage.store(stage); }
FirstStage forced_first_stage() { return first_stage.load(); }

int64_t accumulate(const Accumulation& problem) {
  if (problem.num_rows == 0 || !has_outputs(problem)) {
    // Without outputs an index can still be out of range.
    const int64_t bad = problem.plan != nullptr ? -1
                                                : first_out_of_range(problem.index, problem.index_is_int64, problem.num_rows,
                                                                     0, problem.num_targets);
    if (bad < 0 && has_outputs(problem)) fill_untouched(problem);
    return bad;
  }
  // A new result is usually fresh memory, whose page faults would cost more than the sums.
  if (problem.out != problem.self) {
    prefer_huge_pages(problem.out, problem.outer * problem.num_targets * problem.inner * element_size(problem.dtype));
  }
  if (!is_floating_point(problem.dtype)) return accumulate_integers(problem);
  const RoundingScope environment(RoundingMode::kNearest);  // the caller may flush subnormals
  return with_element(problem.dtype, [&](auto element) { return accumulate_floats<decltype(element)>(problem); });
}

int64_t accumulate(const ElementAccumulation& problem) {
  if (problem.num_elements == 0) {
    fill_untouched(problem.out, problem.self, problem.num_out * element_size(problem.dtype) * (problem.complex_pairs ? 2 : 1));
    return -1;
  }
  if (!is_floating_point(problem.dtype)) return accumulate_integers(problem);
  const RoundingScope environment(RoundingMode::kNearest);  // the caller may flush subnormals
  return with_element(problem.dtype, [&](auto element) { return accumulate_floats<decltype(element)>(problem); });
}

void accumulate_weighted(const Accumulation& problem, const double* weights) {
  if (problem.num_rows == 0 || !has_outputs(problem)) return fill_untouched(problem);
  Accumulation weighted = problem;
  weighted.alpha.is_one = false;  // the way of products
  prefer_huge_pages(problem.out, problem.num_targets * problem.inner * element_size(problem.dtype));
  const RoundingScope environment(RoundingMode::kNearest);
  with_element(problem.dtype, [&](auto element) { sum_by_plan<decltype(element)>(weighted, weights); });
}

}  // namespace reprocuda::cpu
