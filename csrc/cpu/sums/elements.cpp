#include "elements.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "../workspace.h"
#include "cell_sets.h"
#include "exact_scan.h"
#include "outputs.h"
#include "partition.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 14;
constexpr int64_t kMostRowTargets = 1 << 14;   // cells of a row stay in the second-level cache
constexpr int64_t kShortRow = 12;              // elements and targets up to which cells of its own cost a row more
constexpr int64_t kSetsBytes = int64_t{12} << 20;
constexpr int64_t kBatch = 512;                // elements between two calls of a kernel
constexpr int64_t kThinOutputs = 4;            // an element, from which on an output is rarely named twice
constexpr int64_t kShortestThinRun = 8;
constexpr int64_t kThinShare = 4;              // elements of a run that are worth a worker
constexpr int64_t kThinElements = 1 << 13;     // and of all runs: each waits for memory
constexpr uint64_t kAhead = 64;                // outputs fetched before they are added to
constexpr int kSeenBits = 18;                  // of a hash that tells outputs apart

// Cells for all outputs, one set a worker, filled batch by batch.
template <class T>
class ElementBins {
 public:
  ElementBins(const ElementAccumulation& problem, const ElementKeys& keys, FirstStage first_stage, int max_workers)
      : problem_(problem), source_(keys, problem.complex_pairs), first_stage_(first_stage),
        kernels_(cell_kernels<T>(problem.reduction, problem.include_self)),
        outputs_(problem.num_out * (problem.complex_pairs ? 2 : 1)), flagged_(outputs_, 1) {
    doubles_ = set_doubles(kernels_.cell_doubles(1) * outputs_);
    const int64_t most = kSetsBytes / (doubles_ * static_cast<int64_t>(sizeof(double)));
    workers_ = std::min(workers_for(problem.num_elements, kElementsPerWorker), max_workers);
    workers_ = static_cast<int>(std::clamp<int64_t>(most, 1, workers_));
  }

  int64_t run() {
    const Workspace memory = lease([&](Layout& layout) {
      sets_ = layout.take<double>(workers_ * doubles_);
      flagged_.take(layout);
    });
    FirstPosition bad;
    run_tasks(workers_, workers_, [&](int, int64_t part) {
      const RoundingScope scope(kRoundingMode<T>);
      kernels_.clear(sets_ + part * doubles_, doubles_);
      const int64_t begin = part_begin(problem_.num_elements, workers_, part);
      const int64_t end = part_begin(problem_.num_elements, workers_, part + 1);
      const int64_t stopped = source_.for_each_key(begin, end, [](int64_t) {});
      stopped >= 0 ? bad.note(stopped) : add(sets_ + part * doubles_, begin, end);
    });
    if (bad.found()) return bad.get();
    const FinishJob<T> job{sets_, workers_, doubles_, static_cast<const T*>(problem_.self), problem_.include_self,
                           static_cast<T*>(problem_.out), 1, first_stage_};
    const int64_t left = flagged_.finish(kernels_, job, workers_);
    if (left > 0) sum_uncertified(flagged_.list(), left);
    return -1;
  }

 private:
  void add(double* cells, int64_t begin, int64_t end) const {
    Entry<T> batch[kBatch];
    int64_t filled = 0;
    source_.for_each(begin, end, [&](int64_t key, T value) {
      batch[filled++] = {static_cast<uint32_t>(key), value};
      if (filled < kBatch) return;
      kernels_.add_entries(cells, batch, filled, Alpha{});
      filled = 0;
    });
    kernels_.add_entries(cells, batch, filled, Alpha{});
  }

  void sum_uncertified(int32_t* flagged, int64_t count) const {
    const ExactMemory memory(outputs_, 1);
    const UncertifiedOutputs<T> outputs{static_cast<const T*>(problem_.start()), static_cast<T*>(problem_.out), problem_.reduction,
                                        outputs_, flagged, count, first_stage_};
    sum_exactly(outputs, Alpha{}, false, problem_.num_elements, workers_, memory.share(0),
                [&](int64_t begin, int64_t end, auto&& visit) {
                  source_.for_each(begin, end, [&](int64_t key, T value) { visit(key, &value, 0); });
                });
  }

  const ElementAccumulation& problem_;
  ElementValues<T> source_;
  FirstStage first_stage_;
  CellKernels<T> kernels_;
  int64_t outputs_;
  FlaggedOutputs flagged_;
  int64_t doubles_;
  int workers_;
  double* sets_ = nullptr;
};

}  // namespace

bool are_independent_rows(const ElementAccumulation& problem, const ElementKeys& keys) {
  if (problem.complex_pairs || keys.index_scale() != 1 || keys.key_stride() != 0 || keys.src_stride() != 1) return false;
  if (keys.index_stride() != 1 || problem.dim_size > kMostRowTargets) return false;
  // Filling and rounding the cells must not outweigh the additions.
  const int64_t length = keys.size(keys.ndim() - 1);
  return length + problem.dim_size > kShortRow && length >= problem.dim_size / 4 && problem.num_elements / length > 1;
}

template <class T>
void sum_independent_rows(const ElementAccumulation& problem, const ElementKeys& keys, FirstStage first_stage, int max_workers) {
  const int64_t targets = problem.dim_size;
  const int64_t length = keys.size(keys.ndim() - 1);
  const int64_t num_rows = problem.num_elements / length;
  const CellKernels<T> kernel = cell_kernels<T>(problem.reduction, problem.include_self);
  const int64_t doubles = set_doubles(kernel.cell_doubles(1) * targets);
  const int workers = std::min(workers_for(problem.num_elements, kElementsPerWorker), max_workers);
  const int64_t per_task = std::max<int64_t>(1, kElementsPerWorker / 4 / (length + targets));
  const int64_t tasks = (num_rows + per_task - 1) / per_task;
  double* sets = nullptr;
  int32_t* flagged = nullptr;
  int64_t* num_flagged = nullptr;
  const Workspace memory = lease([&](Layout& layout) {
    sets = layout.take<double>(workers * doubles);
    flagged = layout.take<int32_t>(num_rows * targets);
    num_flagged = layout.take<int64_t>(num_rows);
  });
  // Outputs that no row covers: the index may be smaller than `out` in the other dimensions.
  if (num_rows * targets != problem.num_out) {
    fill_untouched(problem.out, problem.self, problem.num_out * element_size(problem.dtype));
  }
  const T* const src = static_cast<const T*>(problem.src);
  const T* const self = static_cast<const T*>(problem.self);
  T* const out = static_cast<T*>(problem.out);
  // Calls each(worker, row, run) for all rows, which are too short to set a rounding mode for each.
  const auto for_each_row = [&](RoundingMode mode, auto&& each) {
    run_tasks(workers, tasks, [&](int worker, int64_t task) {
      const RoundingScope scope(mode);
      const int64_t end = std::min(num_rows, (task + 1) * per_task);
      keys.for_each_run(task * per_task * length, end * length,
                        [&](const ElementKeys::Run& run) { each(worker, run.element / length, run); });
    });
  };
  keys.with_index([&](auto* index) {
    for_each_row(kRoundingMode<T>, [&](int worker, int64_t row, const ElementKeys::Run& run) {
      const CellsJob<T> job{sets + worker * doubles, targets, 1, Alpha{}, false, 0};
      kernel.clear(job.cells, targets * kernel.cell_doubles(1));
      kernel.add_rows(job, index + run.index, src + run.src, 0, length);
      const FinishJob<T> finish{job.cells, 1, doubles, self == nullptr ? nullptr : self + run.key, problem.include_self,
                                out + run.key, 1, first_stage};
      num_flagged[row] = kernel.finish(finish, 0, targets, flagged + row * targets);
    });
    if (std::all_of(num_flagged, num_flagged + num_rows, [](int64_t count) { return count == 0; })) return;
    const ExactMemory exact(targets, workers);
    for_each_row(RoundingMode::kNearest, [&](int worker, int64_t row, const ElementKeys::Run& run) {
      if (num_flagged[row] == 0) return;
      const UncertifiedOutputs<T> outputs{self == nullptr || !problem.include_self ? nullptr : self + run.key, out + run.key,
                                          problem.reduction, targets, flagged + row * targets, num_flagged[row], first_stage};
      sum_exactly(outputs, Alpha{}, false, length, 1, exact.share(worker), [&](int64_t begin, int64_t end, auto&& visit) {
        for (int64_t i = begin; i < end; ++i) visit(index[run.index + i], src + run.src + i, 0);
      });
    });
  });
}

bool are_scattered_thinly(const ElementAccumulation& problem, const ElementKeys& keys) {
  const bool adds = problem.reduction == Reduction::kSum && problem.start() != nullptr && !problem.complex_pairs;
  return adds && keys.key_stride() != 0 && keys.size(keys.ndim() - 1) >= kShortestThinRun &&
         problem.num_out >= kThinOutputs * problem.num_elements;
}

namespace {

// Adds `value` and tells whether that was exact; else *lost is what is missing, an element of T (Knuth, TAOCP 4.2.2), or all of
// `value` if the sum is not finite or fp64 does not hold it.
template <class T>
bool add_exactly(T* sum, T value, T* lost) {
  const double before = to_double(*sum);
  const double added = to_double(value);
  const TwoSum total = two_sum(before, added);
  *lost = value;
  if constexpr (std::is_same_v<T, double>) {
    if (!is_finite(total.sum) || !is_finite(total.error)) return false;
    *sum = total.sum;
    *lost = total.error;
    return total.error == 0;
  } else {
    T rounded;
    if constexpr (std::is_same_v<T, float>) {
      rounded = static_cast<float>(total.sum);
    } else {
      rounded = round_to<T>(total.sum);
    }
    const double kept = to_double(rounded);
    if (total.error != 0 || !is_finite(kept)) return false;
    *sum = rounded;
    if (kept == total.sum) return true;
    *lost = round_to<T>(total.sum - kept);
    return false;
  }
}

// Rounds the exact sum of two numbers once, or returns false and leaves *rounded alone.
template <class T>
bool round_sum(T a, T b, T* rounded) {
  const TwoSum total = two_sum(to_double(a), to_double(b));
  if (!is_finite(total.sum) || !is_finite(total.error)) return false;
  if constexpr (std::is_same_v<T, double>) {
    *rounded = total.sum;
  } else {
    if (total.error != 0) return false;
    *rounded = round_to<T>(total.sum);
  }
  return true;
}

// A set of hashes, which two keys may share.
class HashSet {
 public:
  static constexpr int64_t kWords = (int64_t{1} << kSeenBits) / 64;

  explicit HashSet(uint64_t* words) : words_(words) { std::fill_n(words, kWords, uint64_t{0}); }
  static uint64_t hash(int64_t key) { return (static_cast<uint64_t>(key) * 0x9e3779b97f4a7c15u) >> (64 - kSeenBits); }
  bool has(uint64_t hash) const { return (words_[hash / 64] >> (hash % 64) & 1) != 0; }
  void insert(uint64_t hash) { words_[hash / 64] |= uint64_t{1} << (hash % 64); }

 private:
  uint64_t* words_;
};

// An output that has lost one part is rounded with it right away: of two numbers it is the one that stands already, mostly.
// What is left in `lost` goes the longer way. `words` are those of two sets.
template <class T>
void round_single_losses(LostParts<T>& lost, T* out, uint64_t* words) {
  HashSet once(words);
  HashSet twice(words + HashSet::kWords);
  for (const int64_t key : lost.keys) {
    const uint64_t hash = HashSet::hash(key);
    once.has(hash) ? twice.insert(hash) : once.insert(hash);
  }
  size_t left = 0;
  for (size_t i = 0; i < lost.keys.size(); ++i) {
    T* const at = out + lost.keys[i];
    if (!twice.has(HashSet::hash(lost.keys[i])) && round_sum(*at, lost.values[i], at)) continue;
    lost.keys[left] = lost.keys[i];
    lost.values[left++] = lost.values[i];
  }
  lost.keys.resize(left);
  lost.values.resize(left);
}

}  // namespace

template <class T>
LostParts<T> add_with_losses(const ElementAccumulation& problem, const ElementKeys& keys, int max_workers) {
  const int64_t length = keys.size(keys.ndim() - 1);
  const int64_t most = std::min<int64_t>(max_workers, length / kThinShare);
  const int workers = static_cast<int>(std::clamp<int64_t>(workers_for(problem.num_elements, kThinElements), 1, most));
  uint64_t* seen = nullptr;
  const Workspace memory = lease([&](Layout& layout) { seen = layout.take<uint64_t>(workers * 2 * HashSet::kWords); });
  fill_untouched(problem.out, problem.self, problem.num_out * element_size(problem.dtype));
  T* const out = static_cast<T*>(problem.out);
  const T* const src = static_cast<const T*>(problem.src);
  std::vector<LostParts<T>> lost(workers);
  for (int part = 0; part < workers; ++part) {  // no allocation inside the parallel region
    const int64_t share = problem.num_elements / length * (part_begin(length, workers, part + 1) - part_begin(length, workers, part));
    lost[part].keys.reserve(share);
    lost[part].values.reserve(share);
  }
  // Each takes a part of every run, so that no two write one output. Short parts meet in one cache line, but not at one time:
  // everyone begins with other runs.
  keys.with_index([&](auto* index) {
    run_tasks(workers, workers, [&](int, int64_t part) {
      const int64_t begin = part_begin(length, workers, part);
      const int64_t end = part_begin(length, workers, part + 1);
      LostParts<T> mine = std::move(lost[part]);  // its ends are written often, and neighbours of the others'
      struct {
        int64_t key;
        T value;
      } waiting[kAhead];
      uint64_t fetched = 0;
      const auto add_waiting = [&](uint64_t position) {
        const auto [key, value] = waiting[position % kAhead];
        T missing;
        if (add_exactly(out + key, value, &missing)) return;
        mine.keys.push_back(key);
        mine.values.push_back(missing);
      };
      const auto add_run = [&](const ElementKeys::Run& run) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = index[run.index + i * keys.index_stride()];
          const int64_t key = run.key + i * keys.key_stride() + at * keys.index_scale();
          __builtin_prefetch(out + key, 1);
          if (fetched >= kAhead) add_waiting(fetched);
          waiting[fetched++ % kAhead] = {key, src[run.src + i * keys.src_stride()]};
        }
      };
      const int64_t first = part_begin(problem.num_elements / length, workers, part) * length;
      keys.for_each_run(first, problem.num_elements, add_run);
      keys.for_each_run(0, first, add_run);
      for (uint64_t i = fetched - std::min(fetched, kAhead); i < fetched; ++i) add_waiting(i);
      if (!mine.keys.empty()) round_single_losses(mine, out, seen + part * 2 * HashSet::kWords);
      lost[part] = std::move(mine);
    });
  });
  for (int other = 1; other < workers; ++other) {
    lost[0].keys.insert(lost[0].keys.end(), lost[other].keys.begin(), lost[other].keys.end());
    lost[0].values.insert(lost[0].values.end(), lost[other].values.begin(), lost[other].values.end());
  }
  return std::move(lost[0]);
}

template <class T>
int64_t sum_elements_in_bins(const ElementAccumulation& problem, const ElementKeys& keys, FirstStage first_stage, int max_workers) {
  return ElementBins<T>(problem, keys, first_stage, max_workers).run();
}

template void sum_independent_rows<float>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template void sum_independent_rows<double>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template void sum_independent_rows<Half>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template void sum_independent_rows<BFloat16>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template LostParts<float> add_with_losses<float>(const ElementAccumulation&, const ElementKeys&, int);
template int64_t sum_elements_in_bins<float>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template LostParts<double> add_with_losses<double>(const ElementAccumulation&, const ElementKeys&, int);
template int64_t sum_elements_in_bins<double>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template LostParts<Half> add_with_losses<Half>(const ElementAccumulation&, const ElementKeys&, int);
template int64_t sum_elements_in_bins<Half>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);
template LostParts<BFloat16> add_with_losses<BFloat16>(const ElementAccumulation&, const ElementKeys&, int);
template int64_t sum_elements_in_bins<BFloat16>(const ElementAccumulation&, const ElementKeys&, FirstStage, int);

}  // namespace reprocuda::cpu
