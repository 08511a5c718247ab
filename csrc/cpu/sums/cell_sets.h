// What the algorithms with cells share: how large a set is, and how its cells are rounded by all workers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "../parallel.h"
#include "../workspace.h"
#include "cells_kernel.h"
#include "rows_kernel.h"

namespace reprocuda::cpu {

// Doubles from one set to the next, for cells of `doubles` in all. The last cells are read in a whole vector, and strides of
// whole pages would make sets fight for cache ways.
inline int64_t set_doubles(int64_t doubles) {
  constexpr int64_t kPadding = 24;
  return static_cast<int64_t>(round_up(doubles, 8)) + kPadding + 8 * kMostStateDoubles;
}

// The outputs of one slice that the filter leaves over, listed while many tasks round the cells.
class FlaggedOutputs {
 public:
  FlaggedOutputs(int64_t num_targets, int64_t inner)
      : num_targets_(num_targets), inner_(inner), targets_per_task_(std::max<int64_t>(1, kOutputsPerTask / inner)),
        tasks_((num_targets + targets_per_task_ - 1) / targets_per_task_) {}

  void take(Layout& layout) {
    list_ = layout.take<int32_t>(num_targets_ * inner_);
    counts_ = layout.take<int64_t>(tasks_);
  }

  // Rounds the cells of all targets; returns how many outputs are left over, at the front of list().
  template <class T>
  int64_t finish(const CellKernels<T>& kernels, const FinishJob<T>& job, int workers) const {
    const int finishers = std::min(workers, workers_for(num_targets_ * inner_ * job.num_sets, kCellsPerFinisher));
    run_tasks(finishers, tasks_, [&](int, int64_t task) {
      const RoundingScope scope(kRoundingMode<T>);
      const int64_t first = task * targets_per_task_;
      const int64_t last = std::min(num_targets_, first + targets_per_task_);
      counts_[task] = kernels.finish(job, first, last, list_ + first * inner_);
    });
    int64_t total = 0;
    for (int64_t task = 0; task < tasks_; ++task) {
      std::copy_n(list_ + task * targets_per_task_ * inner_, counts_[task], list_ + total);
      total += counts_[task];
    }
    return total;
  }

  int32_t* list() const { return list_; }

 private:
  static constexpr int64_t kOutputsPerTask = 1 << 11;
  static constexpr int64_t kCellsPerFinisher = 1 << 14;  // fewer cells are rounded sooner than a thread wakes up

  int64_t num_targets_;
  int64_t inner_;
  int64_t targets_per_task_;
  int64_t tasks_;
  int32_t* list_ = nullptr;
  int64_t* counts_ = nullptr;
};

}  // namespace reprocuda::cpu
