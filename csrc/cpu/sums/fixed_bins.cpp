#include "fixed_bins.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>

#include "../index_checks.h"
#include "../parallel.h"
#include "../workspace.h"
#include "fixed_bins_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 14;  // less is not worth a thread
constexpr int64_t kTargetsPerTask = 1 << 11;
constexpr int64_t kCellsPerFinisher = 1 << 14;  // fewer cells are rounded sooner than a thread wakes up
constexpr int64_t kSetsBytes = int64_t{12} << 20;   // of all workers' cells; with more there are fewer workers
constexpr int64_t kMostTargets = int64_t{1} << 16;  // 1 MiB of cells, which a worker's second-level cache has room for
constexpr int64_t kMostRows = int64_t{1} << 40;     // leaves the higher parts 21 bits
constexpr int64_t kSamples = 256;                   // so few cost nothing; a wrong guess costs one pass
constexpr int kRoomAboveSamples = 6;  // bits by which the largest number may exceed the largest sample
constexpr int64_t kPadding = 24;      // words: the last cells are read in a whole vector, and no set starts where another does

// The window for numbers like the samples: below the largest, as many bits as the cells have room for.
std::optional<FixedWindow> window_of(const Accumulation& problem) {
  const double* const src = static_cast<const double*>(problem.src);
  const int64_t step = std::max<int64_t>(1, problem.num_rows / kSamples);
  double largest = 0.0;
  for (int64_t row = 0; row < problem.num_rows; row += step) largest = std::max(largest, std::fabs(src[row]));
  if (!std::isfinite(largest)) return std::nullopt;
  const int top = (largest == 0.0 ? 0 : std::ilogb(largest) + 1) + kRoomAboveSamples;
  // Contributions and `self` together stay below 2^62 in the higher parts, which have 2^50 units at most each.
  const int high_bits = std::min(50, 62 - static_cast<int>(std::bit_width(static_cast<uint64_t>(problem.num_rows + 1))));
  // Lower parts of few targets are normalised often, at no cost.
  const int low_bits = std::clamp(60 - static_cast<int>(std::bit_width(static_cast<uint64_t>(problem.num_targets))), 46, 50);
  FixedWindow window;
  window.low_bits = low_bits;
  window.unit = top - high_bits - low_bits;
  if (window.unit < -900 || top > 900) return std::nullopt;  // no power of two here comes near the ends of the format
  window.to_high = std::ldexp(1.0, -(window.unit + low_bits));
  window.most_high = std::ldexp(1.0, high_bits);
  return window;
}

template <class Index>
class FixedBins {
 public:
  FixedBins(const Accumulation& problem, const Index* index, const FixedWindow& window)
      : p_(problem), index_(index), window_(window), kernels_(fixed_bins_kernels()) {
    stride_ = static_cast<int64_t>(round_up(2 * p_.num_targets, 8)) + kPadding;
    const int64_t most = kSetsBytes / (stride_ * static_cast<int64_t>(sizeof(int64_t)));
    workers_ = static_cast<int>(std::clamp<int64_t>(most, 1, workers_for(p_.num_rows, kElementsPerWorker)));
  }

  std::optional<int64_t> run() {
    const Workspace memory = lease([&](Layout& layout) { sets_ = layout.take<int64_t>(workers_ * stride_); });
    FirstPosition bad;
    std::atomic<bool> fits{true};
    run_tasks(workers_, workers_, [&](int, int64_t part) {
      int64_t* const cells = sets_ + part * stride_;
      bool fit = start(part, cells);
      const int64_t ignored = p_.ignored_target;
      const bool ignores = ignored >= 0 && ignored < p_.num_targets;
      const int64_t kept[2] = {ignores ? cells[2 * ignored] : 0, ignores ? cells[2 * ignored + 1] : 0};
      const int64_t end = part_begin(p_.num_rows, workers_, part + 1);
      const double* const src = static_cast<const double*>(p_.src);
      for (int64_t row = part_begin(p_.num_rows, workers_, part); fit && row < end;) {
        const int64_t stop = std::min(end, row + fixed_batch(window_));
        const int64_t stopped = kernels_.add(window_, cells, p_.num_targets, index_, src, row, stop, &fit);
        if (stopped >= 0) {
          bad.note(stopped);
          break;
        }
        kernels_.normalize(window_, cells, p_.num_targets);
        row = stop;
        if (!fits.load(std::memory_order_relaxed)) break;
      }
      if (!fit) fits.store(false, std::memory_order_relaxed);
      if (ignores) std::copy_n(kept, 2, cells + 2 * ignored);
    });
    if (!fits.load()) return std::nullopt;
    if (bad.found()) return bad.get();
    const int finishers = std::min(workers_, workers_for(p_.num_targets * workers_, kCellsPerFinisher));
    const int64_t tasks = (p_.num_targets + kTargetsPerTask - 1) / kTargetsPerTask;
    run_tasks(finishers, tasks, [&](int, int64_t task) {
      const int64_t first = task * kTargetsPerTask;
      kernels_.finish(window_, sets_, workers_, stride_, static_cast<double*>(p_.out), first,
                      std::min(p_.num_targets, first + kTargetsPerTask));
    });
    return -1;
  }

 private:
  // Every worker starts with a part of `self`, and zeros elsewhere.
  bool start(int64_t part, int64_t* cells) const {
    std::fill_n(cells, stride_, 0);
    if (p_.self == nullptr) return true;
    const int64_t begin = part_begin(p_.num_targets, workers_, part);
    const int64_t end = part_begin(p_.num_targets, workers_, part + 1);
    return kernels_.start(window_, cells + 2 * begin, static_cast<const double*>(p_.self) + begin, end - begin);
  }

  const Accumulation& p_;
  const Index* index_;
  FixedWindow window_;
  FixedBinsKernels kernels_;
  int64_t stride_ = 0;
  int workers_ = 1;
  int64_t* sets_ = nullptr;
};

}  // namespace

bool may_sum_in_fixed_bins(const Accumulation& problem) {
  return problem.dtype == Dtype::kFloat64 && problem.reduction == Reduction::kSum && is_plain_sum(problem) &&
         problem.alpha.is_one && problem.outer == 1 && problem.inner == 1 && problem.num_targets <= kMostTargets &&
         problem.num_rows < kMostRows;
}

template <class Index>
std::optional<int64_t> sum_in_fixed_bins(const Accumulation& problem, const Index* index) {
  const std::optional<FixedWindow> window = window_of(problem);
  if (!window) return std::nullopt;
  return FixedBins<Index>(problem, index, *window).run();
}

template std::optional<int64_t> sum_in_fixed_bins(const Accumulation&, const int32_t*);
template std::optional<int64_t> sum_in_fixed_bins(const Accumulation&, const int64_t*);

}  // namespace reprocuda::cpu
