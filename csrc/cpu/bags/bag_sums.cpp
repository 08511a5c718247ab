// Sums over bags: blocks of bags by the kernels of bags_kernel.h, and the rest by the algorithm for rows in general.
//
// Plain sums are tried first, and kept where nothing was rounded; else the block is summed again between two ends, and what
// these leave open, exactly. Sums of float64 are compensated, and again, more carefully, where that does not prove them. A block
// fits in the first-level cache.
#include <algorithm>
#include <atomic>

#include "../index_checks.h"
#include "../inexact.h"
#include "../parallel.h"
#include "../sums/accumulate.h"
#include "../sums/exact.h"
#include "../workspace.h"
#include "bags.h"
#include "bags_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 15;  // less is not worth a thread
constexpr int64_t kTasksPerWorker = 8;
constexpr int64_t kBlockElements = 1 << 11;
constexpr int kMostFailures = 2;                 // blocks that rounded until a task stops trying plain sums

int64_t longest_bag(const BagRows& bags) {
  int64_t longest = 0;
  for (int64_t bag = 0; bag < bags.num_bags; ++bag) longest = std::max(longest, bags.offsets[bag + 1] - bags.offsets[bag]);
  return longest;
}

// A worker's own memory.
struct BagScratch {
  double* high;
  double* negated_low;
  bool* undecided;    // [bags of a block]
  int32_t* flagged;   // [features]
  double* weights;    // [longest bag], where they have to be widened
  int64_t* limbs;
};

template <class T>
class BagDriver {
 public:
  BagDriver(const BagSum& problem, int64_t longest, int workers)
      : p_(problem), longest_(longest), workers_(workers), kernels_(bag_kernels<T>()),
        block_bags_(std::max<int64_t>(1, kBlockElements / problem.features)) {}

  // Returns whether all rows lie in the table; stops where one does not.
  bool run() {
    const int64_t elements = block_bags_ * p_.features;
    double* sums = nullptr;
    bool* undecided = nullptr;
    int32_t* flagged = nullptr;
    double* weights = nullptr;
    std::byte* limbs = nullptr;
    const bool widens = !kIsWide && narrow_weights() != nullptr;
    const Workspace memory = lease([&](Layout& layout) {
      sums = layout.take<double>(kIsWide ? 0 : workers_ * 2 * elements);
      undecided = layout.take<bool>(workers_ * block_bags_);
      flagged = layout.take<int32_t>(workers_ * p_.features);
      weights = layout.take<double>(widens ? workers_ * longest_ : 0);
      limbs = layout.take<std::byte>(workers_ * kExactBytes);
    });
    const int64_t tasks = workers_ == 1 ? 1 : std::min(p_.num_bags, workers_ * kTasksPerWorker);
    run_tasks(workers_, tasks, [&](int worker, int64_t task) {
      const BagScratch scratch{sums + worker * 2 * elements, sums + (worker * 2 + 1) * elements, undecided + worker * block_bags_,
                               flagged + worker * p_.features, weights + (widens ? worker * longest_ : 0),
                               reinterpret_cast<int64_t*>(limbs + worker * kExactBytes)};
      run_range(first_bag(task, tasks), first_bag(task + 1, tasks), scratch);
    });
    return within_.load();
  }

 private:
  static constexpr bool kIsWide = std::is_same_v<T, double>;

  // An even cut of the rows and the bags together.
  int64_t first_bag(int64_t task, int64_t tasks) const {
    const int64_t wanted = part_begin(p_.num_rows + p_.num_bags, tasks, task);
    int64_t low = 0;
    int64_t high = p_.num_bags;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (p_.offsets[middle] + middle < wanted) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  bool weights_are_narrow() const { return kIsWide || !p_.weights_are_wide; }
  const T* narrow_weights() const { return weights_are_narrow() ? static_cast<const T*>(p_.weights) : nullptr; }
  const double* wide_weights() const { return weights_are_narrow() ? nullptr : static_cast<const double*>(p_.weights); }

  void run_range(int64_t begin, int64_t end, const BagScratch& scratch) {
    const RoundingScope scope(kIsWide ? RoundingMode::kNearest : RoundingMode::kUpward);
    // Products of 24-bit numbers fill fp64 alone.
    const bool rounds = kIsWide || (std::is_same_v<T, float> && p_.weights != nullptr);
    int failures = rounds || p_.features == 1 ? kMostFailures : 0;
    for (int64_t first = begin; first < end && within_.load(std::memory_order_relaxed); first += block_bags_) {
      BagBlock<T> block;
      block.table = static_cast<const T*>(p_.table);
      block.features = p_.features;
      block.rows = p_.rows;
      block.num_rows = p_.num_rows;
      block.offsets = p_.offsets + first;
      block.num_bags = std::min(block_bags_, end - first);
      block.weights = narrow_weights();
      block.wide_weights = wide_weights();
      block.mean = p_.mean;
      block.out = static_cast<T*>(p_.out) + first * p_.features;
      block.high = scratch.high;
      block.negated_low = scratch.negated_low;
      block.undecided = scratch.undecided;
      if (!kernels_.within(p_.rows + block.offsets[0], block.offsets[block.num_bags] - block.offsets[0], p_.num_table_rows)) {
        return within_.store(false, std::memory_order_relaxed);
      }
      bool exact = false;
      if (failures < kMostFailures) {
        clear_inexact();
        kernels_.add(block);
        exact = !is_inexact();
        failures += exact ? 0 : 1;
      }
      std::fill_n(block.undecided, block.num_bags, exact && block.mean);
      if (!exact) kernels_.enclose(block);
      for (int64_t bag = 0; bag < block.num_bags; ++bag) {
        if (!block.undecided[bag]) continue;
        const int64_t left = kernels_.finish(block, bag, exact, scratch.flagged);
        if (left > 0) sum_exactly(first + bag, left, scratch);
      }
    }
  }

  void sum_exactly(int64_t bag, int64_t num_flagged, const BagScratch& scratch) const {
    const int64_t first = p_.offsets[bag];
    const int64_t last = p_.offsets[bag + 1];
    RowsJob<T, int64_t> job{};
    job.src = static_cast<const T*>(p_.table);
    job.out = static_cast<T*>(p_.out);
    job.inner = p_.features;
    job.columns = p_.features;
    job.grouping.permutation = p_.rows;
    job.grouping.offsets = p_.offsets;
    job.grouping.num_segments = p_.num_bags;
    job.grouping.num_rows = p_.num_rows;
    job.grouping.weights = kIsWide ? static_cast<const double*>(p_.weights) : wide_weights();
    if (const T* const narrow = kIsWide ? nullptr : narrow_weights()) {
      std::transform(narrow + first, narrow + last, scratch.weights, [](T weight) { return to_double(weight); });
      job.grouping.weights = scratch.weights - first;
    }
    job.alpha.is_one = p_.weights == nullptr;
    job.reduction = p_.mean ? Reduction::kMean : Reduction::kSum;
    job.include_self = true;
    job.first_stage = FirstStage::kFilter;
    job.untouched_done = true;
    job.ignored_target = -1;
    exact_segment(job, first, last, bag, scratch.flagged, num_flagged, scratch.limbs);
  }

  const BagSum& p_;
  int64_t longest_;
  int workers_;
  BagKernels<T> kernels_;
  int64_t block_bags_;
  std::atomic<bool> within_{true};
};

// Anything: a bag that only all threads together finish soon.
void sum_as_rows(const BagSum& problem) {
  const Plan plan{problem.rows, problem.offsets};
  Accumulation rows;
  rows.dtype = problem.dtype;
  rows.out = problem.out;
  rows.reduction = problem.mean ? Reduction::kMean : Reduction::kSum;
  rows.src = problem.table;
  rows.plan = &plan;
  rows.num_targets = problem.num_bags;
  rows.num_rows = problem.num_rows;
  rows.inner = problem.features;
  if (problem.weights == nullptr) {
    accumulate(rows);
    return;
  }
  if (problem.weights_are_wide || problem.dtype == Dtype::kFloat64) {
    return accumulate_weighted(rows, static_cast<const double*>(problem.weights));
  }
  double* wide = nullptr;
  const Workspace memory = lease([&](Layout& layout) { wide = layout.take<double>(problem.num_rows); });
  const auto widen = [&](auto element) {
    const auto* const weights = static_cast<const decltype(element)*>(problem.weights);
    std::transform(weights, weights + problem.num_rows, wide, [](auto weight) { return to_double(weight); });
  };
  switch (problem.dtype) {
    case Dtype::kFloat16: widen(Half{}); break;
    case Dtype::kBFloat16: widen(BFloat16{}); break;
    default: widen(float{}); break;
  }
  accumulate_weighted(rows, wide);
}

}  // namespace

int64_t bag_sum(const BagSum& problem) {
  const auto first_bad_row = [&] {
    return first_out_of_range(problem.rows, true, problem.num_rows, 0, problem.num_table_rows);
  };
  if (problem.num_bags == 0 || problem.features == 0) return first_bad_row();
  const RoundingScope environment(RoundingMode::kNearest);  // the caller may flush subnormals
  const int workers = workers_for((problem.num_rows + problem.num_bags) * problem.features, kElementsPerWorker);
  const int64_t longest = longest_bag(problem);
  const bool even = workers == 1 || longest <= problem.num_rows / (2 * workers);
  if (!even || forced_first_stage() != FirstStage::kFilter) {
    const int64_t bad = first_bad_row();
    if (bad < 0) sum_as_rows(problem);
    return bad;
  }
  prefer_huge_pages(problem.out, problem.num_bags * problem.features * element_size(problem.dtype));
  const auto is_within = [&](auto element) { return BagDriver<decltype(element)>(problem, longest, workers).run(); };
  bool within = true;
  switch (problem.dtype) {
    case Dtype::kFloat16: within = is_within(Half{}); break;
    case Dtype::kBFloat16: within = is_within(BFloat16{}); break;
    case Dtype::kFloat64: within = is_within(double{}); break;
    default: within = is_within(float{}); break;
  }
  return within ? -1 : first_bad_row();
}

}  // namespace reprocuda::cpu
