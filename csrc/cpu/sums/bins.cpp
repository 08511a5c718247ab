// Guarantee: exact sums rounded once, whatever the number of workers: sets of cells merge by the additions that made them.
// Cost: about a nanosecond a contribution from memory, and one cleared, merged and rounded cell a target and worker.
#include "bins.h"

#include <algorithm>

#include "../index_checks.h"
#include "../workspace.h"
#include "cell_sets.h"
#include "exact_scan.h"
#include "outputs.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kSetsBytes = int64_t{12} << 20;       // all cells of all workers
constexpr int64_t kMostOutputs = int64_t{1} << 16;      // a set of 1 MiB
constexpr int64_t kReplicatedOutputs = 512;             // four copies still fit in the first-level cache
constexpr int64_t kElementsPerWorker = 1 << 14;

template <class T, class Index>
class BinsDriver {
 public:
  BinsDriver(const Accumulation& problem, const Index* index, FirstStage first_stage, int max_workers)
      : problem_(problem), index_(index), first_stage_(first_stage),
        kernels_(cell_kernels<T>(problem.reduction, problem.include_self)),
        shared_flagged_(problem.num_targets, problem.inner) {
    outputs_ = problem.num_targets * problem.inner;
    cell_doubles_ = kernels_.cell_doubles(problem.inner);
    const bool replicate = problem.inner == 1 && problem.num_targets <= kReplicatedOutputs && problem.alpha.is_one &&
                           is_plain_sum(problem) && !problem.mean() && problem.num_rows > 64 * problem.num_targets;
    copies_ = replicate ? kReplicas : 1;
    set_doubles_ = set_doubles(problem.num_targets * cell_doubles_);
    const int64_t worker_bytes = copies_ * set_doubles_ * static_cast<int64_t>(sizeof(double));
    workers_ = workers_for(problem.outer * problem.num_rows * problem.inner, kElementsPerWorker);
    workers_ = static_cast<int>(std::clamp<int64_t>(kSetsBytes / worker_bytes, 1, std::min(workers_, max_workers)));
    by_slice_ = problem.outer > 1 && problem.outer >= workers_;
  }

  int64_t run() {
    const Workspace memory = lease([&](Layout& layout) {
      sets_ = layout.take<double>(workers_ * copies_ * set_doubles_);
      if (by_slice_) {
        flagged_ = layout.take<int32_t>(problem_.outer * outputs_);
        num_flagged_ = layout.take<int64_t>(problem_.outer);
      } else {
        shared_flagged_.take(layout);
      }
    });
    return by_slice_ ? run_slices() : run_rows();
  }

 private:
  double* set(int64_t worker) const { return sets_ + worker * copies_ * set_doubles_; }
  const T* src(int64_t slice) const { return static_cast<const T*>(problem_.src) + slice * problem_.num_rows * problem_.inner; }
  const T* self(int64_t slice) const {
    return problem_.self == nullptr ? nullptr : static_cast<const T*>(problem_.self) + slice * outputs_;
  }
  T* out(int64_t slice) const { return static_cast<T*>(problem_.out) + slice * outputs_; }

  void clear(int64_t worker) const {
    kernels_.clear(set(worker), copies_ * set_doubles_);
  }

  int64_t add_rows(int64_t worker, int64_t slice, int64_t first, int64_t last) const {
    const CellsJob<T> job{set(worker), problem_.num_targets, problem_.inner, problem_.alpha, problem_.complex_pairs,
                          copies_ == 1 ? 0 : set_doubles_};
    return kernels_.add_rows(job, index_, src(slice), first, last);
  }

  // What was aimed at the ignored target never happened.
  void drop_ignored(int64_t worker) const {
    const int64_t ignored = problem_.ignored_target;
    if (ignored < 0 || ignored >= problem_.num_targets) return;
    for (int64_t copy = 0; copy < copies_; ++copy) {
      kernels_.clear(set(worker) + copy * set_doubles_ + ignored * cell_doubles_, cell_doubles_);
    }
  }

  FinishJob<T> finish_job(int64_t worker, int64_t num_workers, int64_t slice) const {
    return {set(worker), num_workers * copies_, set_doubles_,   self(slice), problem_.include_self,
            out(slice),  problem_.inner,        first_stage_};
  }

  // One worker a slice.
  int64_t run_slices() {
    const int64_t bad =
        first_out_of_range(index_, sizeof(Index) == sizeof(int64_t), problem_.num_rows, 0, problem_.num_targets);
    if (bad >= 0) return bad;
    const auto run_slice = [&](int worker, int64_t slice) {
      const RoundingScope scope(kRoundingMode<T>);
      clear(worker);
      add_rows(worker, slice, 0, problem_.num_rows);
      drop_ignored(worker);
      num_flagged_[slice] = kernels_.finish(finish_job(worker, 1, slice), 0, problem_.num_targets, flagged_ + slice * outputs_);
    };
    if (workers_ == 1) {
      for (int64_t slice = 0; slice < problem_.outer; ++slice) run_slice(0, slice);
    } else {
      run_tasks(workers_, problem_.outer, run_slice);
    }
    const bool all_done = std::all_of(num_flagged_, num_flagged_ + problem_.outer, [](int64_t count) { return count == 0; });
    if (!all_done) finish_slices_exactly();
    return -1;
  }

  void finish_slices_exactly() {
    const ExactMemory memory(outputs_, workers_);
    run_tasks(workers_, problem_.outer, [&](int worker, int64_t slice) {
      if (num_flagged_[slice] == 0) return;
      sum_slice_exactly(slice, flagged_ + slice * outputs_, num_flagged_[slice], 1, memory.share(worker));
    });
  }

  // All workers share the rows of one slice after the other; the index is checked on the way through the first.
  int64_t run_rows() {
    for (int64_t slice = 0; slice < problem_.outer; ++slice) {
      FirstPosition bad;
      run_tasks(workers_, workers_, [&](int, int64_t part) {
        const RoundingScope scope(kRoundingMode<T>);
        clear(part);
        const int64_t stopped = add_rows(part, slice, part_begin(problem_.num_rows, workers_, part),
                                         part_begin(problem_.num_rows, workers_, part + 1));
        if (stopped >= 0) bad.note(stopped);
        drop_ignored(part);
      });
      if (bad.found()) return bad.get();
      const int64_t left = shared_flagged_.finish(kernels_, finish_job(0, workers_, slice), workers_);
      if (left > 0) sum_slice_exactly(slice, shared_flagged_.list(), left, workers_, ExactMemory(outputs_, 1).share(0));
    }
    return -1;
  }

  void sum_slice_exactly(int64_t slice, int32_t* flagged, int64_t count, int workers, const ExactShare& memory) const {
    const T* const rows = src(slice);
    const int64_t inner = problem_.inner;
    const UncertifiedOutputs<T> outputs{problem_.include_self ? self(slice) : nullptr, out(slice), problem_.reduction, outputs_,
                                        flagged, count, first_stage_};
    sum_exactly(outputs, problem_.alpha, problem_.complex_pairs, problem_.num_rows, workers, memory,
                [&](int64_t begin, int64_t end, auto&& visit) {
                  for (int64_t row = begin; row < end; ++row) {
                    const int64_t first = index_[row] * inner;
                    for (int64_t f = 0; f < inner; ++f) visit(first + f, rows + row * inner, f);
                  }
                });
  }

  const Accumulation& problem_;
  const Index* index_;
  FirstStage first_stage_;
  CellKernels<T> kernels_;
  int64_t outputs_ = 0;
  int64_t cell_doubles_ = 0;
  int64_t set_doubles_ = 0;
  int64_t copies_ = 1;
  int workers_ = 1;
  bool by_slice_ = false;
  double* sets_ = nullptr;
  int32_t* flagged_ = nullptr;      // [outer, outputs], of each slice its own stretch, where slices are for one worker each
  int64_t* num_flagged_ = nullptr;  // [outer]
  FlaggedOutputs shared_flagged_;   // else
};

}  // namespace

bool bins_fit(const Accumulation& problem) {
  return problem.inner <= kMostOutputs && problem.num_targets <= kMostOutputs / problem.inner;
}

bool bins_pay(const Accumulation& problem) {
  return problem.inner == 1 && bins_fit(problem) && problem.num_targets <= problem.num_rows;
}

template <class T, class Index>
int64_t sum_in_bins(const Accumulation& problem, const Index* index, FirstStage first_stage, int max_workers) {
  return BinsDriver<T, Index>(problem, index, first_stage, max_workers).run();
}

template int64_t sum_in_bins<float>(const Accumulation&, const int32_t*, FirstStage, int);
template int64_t sum_in_bins<float>(const Accumulation&, const int64_t*, FirstStage, int);
template int64_t sum_in_bins<double>(const Accumulation&, const int32_t*, FirstStage, int);
template int64_t sum_in_bins<double>(const Accumulation&, const int64_t*, FirstStage, int);
template int64_t sum_in_bins<Half>(const Accumulation&, const int32_t*, FirstStage, int);
template int64_t sum_in_bins<Half>(const Accumulation&, const int64_t*, FirstStage, int);
template int64_t sum_in_bins<BFloat16>(const Accumulation&, const int32_t*, FirstStage, int);
template int64_t sum_in_bins<BFloat16>(const Accumulation&, const int64_t*, FirstStage, int);

}  // namespace reprocuda::cpu
