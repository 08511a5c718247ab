// Guarantee: exact sums rounded once, whatever the cut and the number of workers. Cost: one count of the keys, one pass that
// moves keys and values to their ranges, one that adds them to cells in cache; 8 bytes an element (16 for fp64) of temporary
// memory. A range that holds a large share of all elements is summed by all workers together, so that a power law keeps
// them busy.
#include "partition.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <utility>

#include "../index_checks.h"
#include "cell_sets.h"
#include "exact_scan.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 14;
constexpr int64_t kRangeTargets = 1 << 14;       // cells of a range, 256 KiB, stay in the second-level cache
constexpr int64_t kMostRanges = 1 << 11;
constexpr int64_t kTargetsPerTask = 1 << 11;

template <class T, class Source>
class PartitionDriver {
 public:
  PartitionDriver(const PartitionProblem<T>& problem, const Source& source)
      : problem_(problem), source_(source), kernels_(cell_kernels<T>(problem.reduction, problem.include_self)) {
    workers_ = std::min(workers_for(problem.num_elements, kElementsPerWorker), problem.max_workers);
    const int bits = std::bit_width(static_cast<uint64_t>(problem.num_targets - 1));
    const int range_bits = std::bit_width(static_cast<uint64_t>(kRangeTargets)) - 1;
    const int most_range_bits = std::bit_width(static_cast<uint64_t>(kMostRanges)) - 1;
    shift_ = std::max({0, std::min(bits, range_bits), bits - most_range_bits});
    num_ranges_ = ((problem.num_targets - 1) >> shift_) + 1;
    range_targets_ = std::min(problem.num_targets, int64_t{1} << shift_);
    set_doubles_ = set_doubles(kernels_.cell_doubles(1) * range_targets_);
  }

  int64_t run() {
    const Workspace memory = lease([&](Layout& layout) {
      next_ = layout.take<int64_t>(workers_ * num_ranges_);
      num_flagged_ = layout.take<int64_t>(num_ranges_);
      sets_ = layout.take<double>(workers_ * set_doubles_);
      entries_ = layout.take<Entry<T>>(problem_.num_entries);
      flagged_ = layout.take<int32_t>(problem_.num_targets);
    });
    const int64_t bad = count();
    if (bad >= 0) return bad;
    move_to_ranges();
    sum_ranges();
    sum_uncertified();
    return -1;
  }

 private:
  int64_t first_target(int64_t range) const { return range << shift_; }
  int64_t targets(int64_t range) const { return std::min(range_targets_, problem_.num_targets - first_target(range)); }
  // After the move the last worker's counters say where the ranges end.
  int64_t entries_begin(int64_t range) const { return range == 0 ? 0 : entries_end(range - 1); }
  int64_t entries_end(int64_t range) const { return next_[(workers_ - 1) * num_ranges_ + range]; }
  double* set(int64_t worker) const { return sets_ + worker * set_doubles_; }

  template <class Share>
  void for_each_share(Share&& share) const {
    const int64_t n = problem_.num_elements;
    run_tasks(workers_, workers_, [&](int, int64_t part) {
      share(part, part_begin(n, workers_, part), part_begin(n, workers_, part + 1));
    });
  }

  int64_t count() {
    FirstPosition bad;
    for_each_share([&](int64_t part, int64_t begin, int64_t end) {
      int64_t* const counts = next_ + part * num_ranges_;
      std::fill_n(counts, num_ranges_, int64_t{0});
      const int64_t stopped = source_.for_each_key(begin, end, [&](int64_t key) { ++counts[key >> shift_]; });
      if (stopped >= 0) bad.note(stopped);
    });
    int64_t running = 0;
    for (int64_t range = 0; range < num_ranges_; ++range) {
      for (int worker = 0; worker < workers_; ++worker) {
        running += std::exchange(next_[worker * num_ranges_ + range], running);
      }
    }
    return bad.get();
  }

  void move_to_ranges() {
    const uint32_t low = static_cast<uint32_t>((int64_t{1} << shift_) - 1);
    for_each_share([&](int64_t part, int64_t begin, int64_t end) {
      // Copies, which no store through a pointer can change.
      int64_t* const next = next_ + part * num_ranges_;
      Entry<T>* const entries = entries_;
      const int shift = shift_;
      source_.for_each(begin, end, [=](int64_t key, T value) {
        const int64_t at = next[key >> shift]++;
        entries[at] = {static_cast<uint32_t>(key) & low, value};
        // Ranges whose distance is a multiple of a cache way evict each other's lines while these wait to be owned.
        __builtin_prefetch(entries + at + 2 * kCacheLine / sizeof(Entry<T>), 1);
      });
    });
  }

  FinishJob<T> finish_job(int64_t range, int64_t worker, int64_t num_sets) const {
    const int64_t first = first_target(range);
    return {set(worker), num_sets, set_doubles_, problem_.self == nullptr ? nullptr : problem_.self + first,
            problem_.include_self, problem_.out + first, 1, problem_.first_stage};
  }

  void add(int64_t worker, int64_t range, int64_t begin, int64_t end) const {
    kernels_.clear(set(worker), targets(range) * kernels_.cell_doubles(1));
    kernels_.add_entries(set(worker), entries_ + begin, end - begin, problem_.alpha);
  }

  void sum_ranges() {
    const int64_t heavy = workers_ == 1 ? problem_.num_entries + 1 : problem_.num_entries / (2 * workers_) + 1;
    const auto is_heavy = [&](int64_t range) { return entries_end(range) - entries_begin(range) >= heavy; };
    for (int64_t range = 0; range < num_ranges_ && workers_ > 1; ++range) {
      if (is_heavy(range)) sum_together(range);
    }
    run_tasks(workers_, num_ranges_, [&](int worker, int64_t range) {
      if (is_heavy(range)) return;
      const RoundingScope scope(kRoundingMode<T>);
      add(worker, range, entries_begin(range), entries_end(range));
      num_flagged_[range] = kernels_.finish(finish_job(range, worker, 1), 0, targets(range), flagged_ + first_target(range));
    });
  }

  void sum_together(int64_t range) {
    const int64_t begin = entries_begin(range);
    const int64_t size = entries_end(range) - begin;
    run_tasks(workers_, workers_, [&](int, int64_t part) {
      const RoundingScope scope(kRoundingMode<T>);
      add(part, range, begin + part_begin(size, workers_, part), begin + part_begin(size, workers_, part + 1));
    });
    const int64_t tasks = (targets(range) + kTargetsPerTask - 1) / kTargetsPerTask;
    std::atomic<int64_t> total{0};
    int32_t* const flagged = flagged_ + first_target(range);
    run_tasks(workers_, tasks, [&](int, int64_t task) {
      const RoundingScope scope(kRoundingMode<T>);
      const int64_t first = task * kTargetsPerTask;
      const int64_t last = std::min(targets(range), first + kTargetsPerTask);
      int32_t mine[kTargetsPerTask];
      const int64_t count = kernels_.finish(finish_job(range, 0, workers_), first, last, mine);
      std::copy_n(mine, count, flagged + total.fetch_add(count));
    });
    num_flagged_[range] = total.load();
  }

  void sum_uncertified() const {
    int64_t total = 0;
    for (int64_t range = 0; range < num_ranges_; ++range) total += num_flagged_[range];
    if (total == 0) return;
    // Ranges in parallel when there are enough of them, else all workers on each.
    const bool together = num_ranges_ < 2 * workers_;
    const int shares = together ? 1 : workers_;
    const ExactMemory memory(range_targets_, shares);
    run_tasks(shares, num_ranges_, [&](int worker, int64_t range) {
      if (num_flagged_[range] == 0) return;
      const int64_t first = first_target(range);
      const UncertifiedOutputs<T> outputs{problem_.self == nullptr || !problem_.include_self ? nullptr : problem_.self + first,
                                          problem_.out + first, problem_.reduction, targets(range), flagged_ + first,
                                          num_flagged_[range], problem_.first_stage};
      const Entry<T>* const entries = entries_ + entries_begin(range);
      const int64_t size = entries_end(range) - entries_begin(range);
      sum_exactly(outputs, problem_.alpha, false, size, together ? workers_ : 1, memory.share(worker),
                  [&](int64_t begin, int64_t end, auto&& visit) {
                    for (int64_t i = begin; i < end; ++i) visit(entries[i].key, &entries[i].value, 0);
                  });
    });
  }

  const PartitionProblem<T>& problem_;
  const Source& source_;
  CellKernels<T> kernels_;
  int workers_ = 1;
  int shift_ = 0;
  int64_t num_ranges_ = 1;
  int64_t range_targets_ = 1;
  int64_t set_doubles_ = 0;
  int64_t* next_ = nullptr;         // [workers][num_ranges]
  int64_t* num_flagged_ = nullptr;  // [num_ranges]
  double* sets_ = nullptr;
  Entry<T>* entries_ = nullptr;     // [num_entries], grouped by range
  int32_t* flagged_ = nullptr;      // [num_targets], each range its own stretch
};

}  // namespace

template <class T, class Source>
int64_t sum_by_partition(const PartitionProblem<T>& problem, const Source& source) {
  return PartitionDriver<T, Source>(problem, source).run();
}

template int64_t sum_by_partition(const PartitionProblem<float>&, const IndexedValues<float, int32_t>&);
template int64_t sum_by_partition(const PartitionProblem<float>&, const IndexedValues<float, int64_t>&);
template int64_t sum_by_partition(const PartitionProblem<float>&, const ElementValues<float>&);
template int64_t sum_by_partition(const PartitionProblem<double>&, const IndexedValues<double, int32_t>&);
template int64_t sum_by_partition(const PartitionProblem<double>&, const IndexedValues<double, int64_t>&);
template int64_t sum_by_partition(const PartitionProblem<double>&, const ElementValues<double>&);
template int64_t sum_by_partition(const PartitionProblem<Half>&, const IndexedValues<Half, int32_t>&);
template int64_t sum_by_partition(const PartitionProblem<Half>&, const IndexedValues<Half, int64_t>&);
template int64_t sum_by_partition(const PartitionProblem<Half>&, const ElementValues<Half>&);
template int64_t sum_by_partition(const PartitionProblem<BFloat16>&, const IndexedValues<BFloat16, int32_t>&);
template int64_t sum_by_partition(const PartitionProblem<BFloat16>&, const IndexedValues<BFloat16, int64_t>&);
template int64_t sum_by_partition(const PartitionProblem<BFloat16>&, const ElementValues<BFloat16>&);

}  // namespace reprocuda::cpu
