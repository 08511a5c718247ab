// The driver of the rows algorithm.
//
// Every slice is cut into ranges of rows and tiles of columns, which workers take as they come. A segment cut by a range end
// leaves one partial sum on each side; a second, short pass merges those, by the additions that made them. So one giant
// segment, or a power law, occupies all workers, and the partial sums never exceed kPartialBytes.
#include "rows.h"

#include <algorithm>
#include <vector>

#include "../parallel.h"
#include "../workspace.h"
#include "exact.h"
#include "outputs.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kPartialBytes = int64_t{8} << 20;
constexpr int64_t kRangesPerWorker = 8;
constexpr int64_t kElementsPerRange = 1 << 14;    // less is not worth a task
constexpr int64_t kElementsPerWorker = 1 << 15;   // less is not worth a thread
constexpr int64_t kLanePadding = 8;               // vectors round columns up
constexpr int64_t kParallelExactRows = 1 << 14;

template <class T, class Position>
class RowsDriver {
 public:
  RowsDriver(const Accumulation& problem, const Grouping<Position>& grouping, FirstStage first_stage)
      : problem_(problem), grouping_(grouping), first_stage_(first_stage),
        kernels_(rows_kernels<T, Position>(problem.reduction)) {
    const int64_t elements = problem.outer * (grouping.num_rows + grouping.num_segments) * problem.inner;
    workers_ = workers_for(elements, kElementsPerWorker);
    plan_tiles();
    plan_ranges();
  }

  void run() {
    untouched_done_ = prefill_untouched();
    double* states = nullptr;
    int32_t* flags = nullptr;
    std::byte* limbs = nullptr;
    const int64_t columns = problem_.inner == 1 ? kSegmentBatch : tile_columns_;
    const int64_t state_doubles = kernels_.state_doubles * (columns + kLanePadding);
    const Workspace workspace = lease([&](Layout& layout) {
      states = layout.take<double>(workers_ * state_doubles);
      flags = layout.take<int32_t>(workers_ * columns);
      limbs = layout.take<std::byte>(workers_ * kExactBytes);
      parts_ = layout.take<double>(ranges_ > 1 ? slices_at_once_ * ranges_ * tiles_ * 2 * part_doubles() : 0);
    });
    const auto scratch = [&](int worker) {
      return RowsScratch{states + worker * state_doubles, flags + worker * columns,
                         reinterpret_cast<int64_t*>(limbs + worker * kExactBytes)};
    };
    for (int64_t first = 0; first < problem_.outer; first += slices_at_once_) {
      const int64_t slices = std::min(slices_at_once_, problem_.outer - first);
      const int64_t units = slices * ranges_ * tiles_;
      if (workers_ == 1 || units == 1) {
        for (int64_t unit = 0; unit < units; ++unit) run_unit(first, unit, scratch(0));
      } else {
        run_tasks(workers_, units, [&](int worker, int64_t unit) { run_unit(first, unit, scratch(worker)); });
      }
      if (ranges_ > 1) merge_split_segments(first, slices, scratch);
    }
  }

 private:
  // An even cut of the columns; tiles start at multiples of the padding.
  void plan_tiles() {
    int64_t least = (problem_.inner + kTileColumns<T> - 1) / kTileColumns<T>;
    const int64_t rows_worth = std::max<int64_t>(1, grouping_.num_rows * 64 / kElementsPerRange);
    // Few rows of many columns: columns are all there is to share out.
    if (workers_ > 1 && problem_.outer * rows_worth < 2 * workers_) {
      least = std::max(least, std::min<int64_t>(kRangesPerWorker * workers_, problem_.inner / 256));
    }
    least = std::max<int64_t>(least, 1);
    tile_columns_ = (problem_.inner + least - 1) / least;
    tile_columns_ = static_cast<int64_t>(round_up(tile_columns_, kLanePadding));
    tiles_ = (problem_.inner + tile_columns_ - 1) / tile_columns_;
    // The last tile must hold a vector of its own.
    if (tiles_ > 1 && problem_.inner - (tiles_ - 1) * tile_columns_ < kLanePadding) {
      tile_columns_ += kLanePadding;
      tiles_ = (problem_.inner + tile_columns_ - 1) / tile_columns_;
    }
    tile_columns_ = std::min(tile_columns_, std::max<int64_t>(problem_.inner, 1));
  }

  void plan_ranges() {
    const int64_t columns = std::min(problem_.inner, tile_columns_);
    const int64_t wanted = kRangesPerWorker * workers_;
    const int64_t others = std::max<int64_t>(1, problem_.outer * tiles_);
    ranges_ = workers_ == 1 ? 1 : (wanted + others - 1) / others;
    const int64_t range_bytes = tiles_ * 2 * part_doubles() * static_cast<int64_t>(sizeof(double));
    ranges_ = std::min(ranges_, kPartialBytes / range_bytes);
    ranges_ = std::min(ranges_, (grouping_.num_rows + grouping_.num_segments) * columns / kElementsPerRange);
    ranges_ = std::clamp<int64_t>(ranges_, 1, std::max<int64_t>(grouping_.num_rows, 1));
    const int64_t affordable = kPartialBytes / (range_bytes * ranges_);
    slices_at_once_ = ranges_ == 1 ? problem_.outer : std::clamp<int64_t>(affordable, 1, problem_.outer);
  }

  int64_t part_doubles() const { return kernels_.state_doubles * (tile_columns_ + kLanePadding); }

  double* parts(int64_t slice, int64_t range, int64_t tile, int side) const {
    return parts_ + (((slice * tiles_ + tile) * ranges_ + range) * 2 + side) * part_doubles();
  }

  RowsJob<T, Position> job(int64_t outer, int64_t tile) const {
    const int64_t outputs = problem_.num_targets * problem_.inner;
    const T* const self = static_cast<const T*>(problem_.start());
    RowsJob<T, Position> job;
    job.src = static_cast<const T*>(problem_.src) + outer * problem_.num_rows * problem_.inner;
    job.self = self == nullptr ? nullptr : self + outer * outputs;
    job.out = static_cast<T*>(problem_.out) + outer * outputs;
    job.inner = problem_.inner;
    job.first_column = tile * tile_columns_;
    job.columns = std::min(tile_columns_, problem_.inner - job.first_column);
    job.grouping = grouping_;
    job.alpha = problem_.alpha;
    job.complex_pairs = problem_.complex_pairs;
    job.reduction = problem_.reduction;
    job.include_self = problem_.include_self;
    job.first_stage = first_stage_;
    job.untouched_done = untouched_done_;
    job.ignored_target = problem_.ignored_target;
    return job;
  }

  void run_unit(int64_t first_slice, int64_t unit, const RowsScratch& scratch) const {
    const RoundingScope scope(kRoundingMode<T>);
    const int64_t tile = unit % tiles_;
    const int64_t range = unit / tiles_ % ranges_;
    const int64_t slice = unit / tiles_ / ranges_;
    RowsRange rows;
    rows.begin = part_begin(grouping_.num_rows, ranges_, range);
    rows.end = part_begin(grouping_.num_rows, ranges_, range + 1);
    rows.last = range + 1 == ranges_;
    rows.head = ranges_ == 1 ? nullptr : parts(slice, range, tile, 0);
    rows.tail = ranges_ == 1 ? nullptr : parts(slice, range, tile, 1);
    kernels_.run_range(job(first_slice + slice, tile), rows, scratch);
  }

  struct Cut {
    int64_t segment;
    int64_t first_range;
    int64_t last_range;
  };

  // The segments that go on behind the range in which they begin.
  std::vector<Cut> cut_segments() const {
    std::vector<Cut> cuts;
    const Position* const offsets = grouping_.offsets;
    for (int64_t range = 0; range + 1 < ranges_;) {
      const int64_t end = part_begin(grouping_.num_rows, ranges_, range + 1);
      const int64_t next = std::lower_bound(offsets, offsets + grouping_.num_segments, static_cast<Position>(end)) - offsets;
      if (offsets[next] == end) {
        ++range;
        continue;
      }
      Cut cut{next - 1, range, range + 1};
      while (cut.last_range + 1 < ranges_ && part_begin(grouping_.num_rows, ranges_, cut.last_range + 1) < offsets[next]) {
        ++cut.last_range;
      }
      cuts.push_back(cut);
      range = cut.last_range;
    }
    return cuts;
  }

  template <class Scratch>
  void merge_split_segments(int64_t first_slice, int64_t slices, Scratch&& scratch) const {
    const std::vector<Cut> cuts = cut_segments();
    const int64_t num_cuts = static_cast<int64_t>(cuts.size());
    if (num_cuts == 0) return;
    const int64_t units = slices * num_cuts * tiles_;
    int32_t* flagged = nullptr;
    int64_t* num_flagged = nullptr;
    const Workspace workspace = lease([&](Layout& layout) {
      flagged = layout.take<int32_t>(units * tile_columns_);
      num_flagged = layout.take<int64_t>(units);
    });
    const auto job_of = [&](int64_t unit) { return job(first_slice + unit / tiles_ / num_cuts, unit % tiles_); };
    const auto cut_of = [&](int64_t unit) -> const Cut& { return cuts[unit / tiles_ % num_cuts]; };
    const int merge_workers = workers_for(units * tile_columns_ * kRangesPerWorker, kElementsPerWorker);
    run_tasks(std::min(merge_workers, workers_), units, [&](int worker, int64_t unit) {
      const RoundingScope scope(kRoundingMode<T>);
      const Cut& cut = cut_of(unit);
      const int64_t slice = unit / tiles_ / num_cuts;
      const int64_t tile = unit % tiles_;
      const SplitSegment split{cut.segment, parts(slice, cut.first_range, tile, 1), parts(slice, cut.first_range + 1, tile, 0),
                               cut.last_range - cut.first_range, 2 * part_doubles()};
      RowsScratch mine = scratch(worker);
      mine.flagged = flagged + unit * tile_columns_;
      num_flagged[unit] = kernels_.merge(job_of(unit), split, mine);
    });
    if (std::all_of(num_flagged, num_flagged + units, [](int64_t count) { return count == 0; })) return;

    const auto each_flagged = [&](int64_t unit, auto&& sum) {
      const Cut& cut = cut_of(unit);
      const int64_t first = grouping_.offsets[cut.segment];
      const int64_t last = grouping_.offsets[cut.segment + 1];
      const bool is_long = last - first >= kParallelExactRows;
      if (num_flagged[unit] > 0) sum(is_long, job_of(unit), first, last, grouping_.target(cut.segment));
    };
    run_tasks(workers_, units, [&](int worker, int64_t unit) {
      each_flagged(unit, [&](bool is_long, const auto& of, int64_t first, int64_t last, int64_t target) {
        if (is_long) return;
        exact_segment(of, first, last, target, flagged + unit * tile_columns_, num_flagged[unit], scratch(worker).limbs);
      });
    });
    for (int64_t unit = 0; unit < units; ++unit) {
      each_flagged(unit, [&](bool is_long, const auto& of, int64_t first, int64_t last, int64_t target) {
        if (!is_long) return;
        exact_segment_parallel(of, first, last, target, flagged + unit * tile_columns_, num_flagged[unit]);
      });
    }
  }

  // Where most targets have no rows, or are not even listed, they are filled in one sweep beforehand.
  bool prefill_untouched() const {
    if (problem_.self == problem_.out) return true;
    if (problem_.include_self && grouping_.targets == nullptr && grouping_.num_rows / 2 >= grouping_.num_segments) return false;
    fill_untouched(problem_);
    return true;
  }

  const Accumulation& problem_;
  const Grouping<Position>& grouping_;
  FirstStage first_stage_;
  RowsKernels<T, Position> kernels_;
  int workers_ = 1;
  int64_t tile_columns_ = 1;
  int64_t tiles_ = 1;
  int64_t ranges_ = 1;
  int64_t slices_at_once_ = 1;
  bool untouched_done_ = false;
  double* parts_ = nullptr;
};

}  // namespace

template <class T, class Position>
void sum_grouped_rows(const Accumulation& problem, const Grouping<Position>& grouping, FirstStage first_stage) {
  RowsDriver<T, Position>(problem, grouping, first_stage).run();
}

template void sum_grouped_rows<float>(const Accumulation&, const Grouping<int32_t>&, FirstStage);
template void sum_grouped_rows<float>(const Accumulation&, const Grouping<int64_t>&, FirstStage);
template void sum_grouped_rows<double>(const Accumulation&, const Grouping<int32_t>&, FirstStage);
template void sum_grouped_rows<double>(const Accumulation&, const Grouping<int64_t>&, FirstStage);
template void sum_grouped_rows<Half>(const Accumulation&, const Grouping<int32_t>&, FirstStage);
template void sum_grouped_rows<Half>(const Accumulation&, const Grouping<int64_t>&, FirstStage);
template void sum_grouped_rows<BFloat16>(const Accumulation&, const Grouping<int32_t>&, FirstStage);
template void sum_grouped_rows<BFloat16>(const Accumulation&, const Grouping<int64_t>&, FirstStage);

}  // namespace reprocuda::cpu
