#include "extremum.h"

#include <algorithm>
#include <limits>

#include "../../numerics/ordered.h"
#include "../index_checks.h"
#include "../parallel.h"
#include "../sums/plan.h"
#include "../workspace.h"
#include "extremum_cells.h"
#include "extremum_kernel.h"
#include "extremum_partition.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kBytesPerWorker = 1 << 17;  // below this waking a second thread costs more than it saves
constexpr int64_t kWide = 8;                  // columns that pay for grouping
constexpr int64_t kManyRows = 8;              // for each target, from which on most rows change nothing
constexpr int64_t kNearCells = 1 << 11;       // of 8 bytes, which half a first-level cache holds
constexpr int64_t kFarStretch = 8 * kExtremumBlock;  // read at a stretch: so long memory streams before cells are looked up

struct Range {
  int64_t begin;
  int64_t end;
};

Range part(int64_t total, int64_t parts, int64_t which) {
  return {part_begin(total, parts, which), part_begin(total, parts, which + 1)};
}

template <class Order, class Index>
class Solver {
  using Bits = typename Order::Bits;
  using Key = typename Order::Key;
  static constexpr bool kPacks = sizeof(Key) <= 4;

 public:
  explicit Solver(const Extremum& problem) : p_(problem) {}

  // Whether run() looks at the index itself, block by block, instead of relying on it.
  bool checks_index(int workers) const {
    return kPacks && p_.is_column() && p_.num_rows < PackedCells::kMaxRows &&
           (p_.outer >= workers || has_few_cells<PackedCells>());
  }
  int64_t first_out_of_range() const { return bad_.get(); }

  template <class Cells>
  void run(int workers) const {
    const int64_t outputs = p_.num_targets * p_.inner;
    Workspace keys;
    if (std::is_same_v<Cells, WideCells> && sizeof(Bits) < sizeof(int64_t)) {
      keys = Workspace(static_cast<size_t>(p_.outer * outputs) * sizeof(int64_t));
    }
    const Cells cells = Cells::of_results(p_, keys.data());
    if (p_.outer >= workers) {
      return run_tasks(workers, p_.outer, [&](int, int64_t o) {
        walk(o, {0, p_.num_rows}, {0, p_.inner}, {0, p_.num_targets}, cells, o * outputs);
      });
    }
    for (int64_t o = 0; o < p_.outer; ++o) {
      if (has_few_cells<Cells>()) {
        cut_rows<Cells>(o, workers);
      } else {
        const bool by_columns = p_.inner >= kWide * workers;
        const int64_t tasks = workers;
        run_tasks(workers, tasks, [&](int, int64_t task) {
          const Range columns = by_columns ? part(p_.inner, tasks, task) : Range{0, p_.inner};
          const Range targets = by_columns ? Range{0, p_.num_targets} : part(p_.num_targets, tasks, task);
          walk(o, {0, p_.num_rows}, columns, targets, cells, o * outputs);
        });
      }
    }
  }

  // Rows that share their index, grouped by target.
  template <class Position>
  void run_grouped(int workers) const {
    const BestOfRows<Order, Position> best_of_rows = cpu::best_of_rows<Order, Position>();
    const int64_t outputs = p_.num_targets * p_.inner;
    for (int64_t o = 0; o < p_.outer; ++o) {
      const Index* const index = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
      const auto grouping = group_rows<Index, Position>(index, p_.num_rows, p_.num_targets);
      if (grouping.targets != nullptr) {
        parallel_for(o * outputs, (o + 1) * outputs, kBytesPerWorker / 8, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) keep(i);
        });
      }
      const int64_t blocks = (p_.inner + kExtremumColumns - 1) / kExtremumColumns;
      const int64_t stretches = std::min<int64_t>(grouping.num_segments, int64_t{8} * workers);
      run_tasks(workers, stretches * blocks, [&](int, int64_t task) {
        const Range columns = part(p_.inner, blocks, task % blocks);
        // Cut where the rows are cut evenly, since segments differ.
        const auto first = [&](int64_t stretch) {
          if (stretch == stretches) return grouping.num_segments;
          const Position row = static_cast<Position>(part_begin(p_.num_rows, stretches, stretch));
          return static_cast<int64_t>(std::lower_bound(grouping.offsets, grouping.offsets + grouping.num_segments, row) -
                                      grouping.offsets);
        };
        const int64_t stretch = task / blocks;
        for (int64_t s = stretch == 0 ? 0 : first(stretch); s < first(stretch + 1); ++s) {
          solve_segment(o, grouping, s, columns, best_of_rows);
        }
      });
    }
  }

 private:
  template <class Cells>
  bool has_few_cells() const {
    return p_.num_targets * p_.inner * static_cast<int64_t>(Cells::bytes_each()) <= kPrivateExtremumBytes;
  }

  const Bits* source(int64_t o, int64_t row) const {
    return static_cast<const Bits*>(p_.src) + (o * p_.num_rows + row) * p_.inner;
  }

  void keep(int64_t i) const {
    static_cast<Bits*>(p_.out)[i] = p_.self == nullptr ? Bits{0} : static_cast<const Bits*>(p_.self)[i];
    p_.arg[i] = p_.num_rows;
  }

  void write(int64_t i, Key key, int64_t row) const {
    if (p_.self != nullptr && Order::key(static_cast<const Bits*>(p_.self)[i], p_.largest) >= key) return keep(i);
    static_cast<Bits*>(p_.out)[i] = Order::bits(key, p_.largest);
    p_.arg[i] = row;
  }

  template <class Cells>
  void finish(const Cells& cells, int64_t first, int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<Cells, PackedCells> && kPacks) return finish_packed<Order>(p_, cells, first, begin, end);
    for (int64_t i = begin; i < end; ++i) {
      if (cells.none(i)) {
        keep(first + i);
      } else {
        write(first + i, static_cast<Key>(cells.key(i)), cells.row(i));
      }
    }
  }

  // Takes in some rows, as far as columns and targets are ours. `cells` is that of target 0, column 0.
  template <class Cells>
  void take_rows(int64_t o, Range rows, Range columns, Range targets, const Cells& cells) const {
    const bool all = targets.begin == 0 && targets.end == p_.num_targets;
    if (p_.inner_stride != 0) return take_elements(o, rows, columns, targets, cells);
    if (p_.row_stride == 1 && columns.end - columns.begin == p_.inner) {
      const auto narrow = [&]<int kInner>(std::integral_constant<int, kInner>) {
        return all ? take_narrow<kInner, true>(o, rows, targets, cells) : take_narrow<kInner, false>(o, rows, targets, cells);
      };
      switch (p_.inner) {
        case 1: return narrow(std::integral_constant<int, 1>{});
        case 2: return narrow(std::integral_constant<int, 2>{});
        case 3: return narrow(std::integral_constant<int, 3>{});
        case 4: return narrow(std::integral_constant<int, 4>{});
        default: break;
      }
    }
    const Index* const index = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t target = index[row * p_.row_stride];
      if (target < targets.begin || target >= targets.end) continue;
      const Bits* const from = source(o, row);
      const Cells to = cells.from(target * p_.inner);
      for (int64_t f = columns.begin; f < columns.end; ++f) to.take(f, Order::key(from[f], p_.largest), row);
    }
  }

  // Cells for what is not ours: a branch would be guessed wrong every other time. Many, since one that all share would make
  // each wait for the one before.
  template <class Cells>
  struct Nowhere {
    static constexpr int64_t kCount = 64;
    alignas(kCacheLine) int64_t memory[2 * (kCount + kWide)] = {};
    Cells cells(int64_t row) {
      return Cells::at(reinterpret_cast<std::byte*>(memory), kCount + kWide).from(row % kCount);
    }
  };

  template <int kInner, bool kAllTargets, class Cells>
  void take_narrow(int64_t o, Range rows, Range targets, const Cells& cells) const {
    if constexpr (!kAllTargets) {
      take_listed<kInner>(o, rows, targets, cells);
    } else if constexpr (kInner == 1 && std::is_same_v<Cells, PackedCells> && kPacks) {
      take_column(o, rows, cells);
    } else {
      const Index* const index = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
      const Bits* from = source(o, rows.begin);
      const bool largest = p_.largest;
      for (int64_t row = rows.begin; row < rows.end; ++row, from += kInner) {
        const Cells to = cells.from(index[row] * kInner);
        for (int f = 0; f < kInner; ++f) to.take(f, Order::key(from[f], largest), row);
      }
    }
  }

  // One column: numbers and positions are put together by vectors. What comes after an index out of range is left out.
  void take_column(int64_t o, Range rows, const PackedCells& to) const {
    const Index* const all = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
    const bool near = p_.num_targets <= kNearCells;
    const int64_t stretch = near ? kExtremumBlock : kFarStretch;
    uint64_t packed[kFarStretch];
    for (int64_t begin = rows.begin; begin < rows.end; begin += stretch) {
      const int64_t count = std::min(stretch, rows.end - begin);
      const Index* const index = all + begin;
      const int64_t bad = first_outside(index, 0, count, 0, p_.num_targets);
      if (bad >= 0) return bad_.note(o * p_.outer_stride + begin + bad);
      packing_kernels<Order>().pack(source(o, begin), count, p_.largest, begin, packed);
      near ? raise_near(index, packed, count, to.cells) : raise_far(index, packed, count, to.cells);
    }
  }

  void raise_near(const Index* index, const uint64_t* packed, int64_t count, uint64_t* cells) const {
    if (p_.num_rows >= kManyRows * p_.num_targets) {
      for (int64_t i = 0; i < count; ++i) {
        if (packed[i] > cells[index[i]]) [[unlikely]] cells[index[i]] = packed[i];
      }
    } else {
      for (int64_t i = 0; i < count; ++i) cells[index[i]] = std::max(cells[index[i]], packed[i]);
    }
  }

  // Cells that a first cache does not hold are only read at first, so that the processor can wait for many of them at once, and
  // without a branch on who wins, which would be guessed wrong too late. Few are left to be raised.
  void raise_far(const Index* index, const uint64_t* packed, int64_t count, uint64_t* cells) const {
    int32_t larger[kExtremumBlock];
    for (int64_t begin = 0; begin < count; begin += kExtremumBlock) {
      const int64_t end = std::min(begin + kExtremumBlock, count);
      int64_t listed = 0;
      for (int64_t i = begin; i < end; ++i) {
        larger[listed] = static_cast<int32_t>(i);
        listed += packed[i] > cells[index[i]];
      }
      for (int64_t at = 0; at < listed; ++at) {
        uint64_t& cell = cells[index[larger[at]]];
        cell = std::max(cell, packed[larger[at]]);
      }
    }
  }

  // The rows whose target is ours are listed first, without a branch on whose they are, which would be guessed wrong every
  // other time.
  template <int kInner, class Cells>
  void take_listed(int64_t o, Range rows, Range targets, const Cells& cells) const {
    const Index* const all = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
    const bool largest = p_.largest;
    const int64_t first = targets.begin;
    const int64_t width = targets.end - first;
    int32_t mine[kExtremumBlock];
    for (int64_t begin = rows.begin; begin < rows.end; begin += kExtremumBlock) {
      const int64_t size = std::min(kExtremumBlock, rows.end - begin);
      const Index* const index = all + begin;
      const Bits* const from = source(o, begin);
      int64_t count = 0;
      for (int64_t i = 0; i < size; ++i) {
        mine[count] = static_cast<int32_t>(i);
        const int64_t offset = index[i] - first;
        count += static_cast<uint64_t>(~offset & (offset - width)) >> 63;  // 0 <= offset < width; a comparison becomes a branch
      }
      for (int64_t at = 0; at < count; ++at) {
        const int64_t i = mine[at];
        const Cells to = cells.from(index[i] * kInner);
        for (int f = 0; f < kInner; ++f) to.take(f, Order::key(from[i * kInner + f], largest), begin + i);
      }
    }
  }

  template <class Cells>
  void take_elements(int64_t o, Range rows, Range columns, Range targets, const Cells& cells) const {
    const Index* const index = static_cast<const Index*>(p_.index) + o * p_.outer_stride;
    const uint64_t first = static_cast<uint64_t>(targets.begin);
    const uint64_t width = static_cast<uint64_t>(targets.end) - first;
    const bool largest = p_.largest;
    const int64_t inner = p_.inner;
    Nowhere<Cells> nowhere;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const Bits* const from = source(o, row);
      const Index* const to = index + row * inner;
      for (int64_t f = columns.begin; f < columns.end; ++f) {
        const int64_t target = to[f];
        const bool mine = static_cast<uint64_t>(target) - first < width;
        (mine ? cells.from(target * inner + f) : nowhere.cells(f)).take(0, Order::key(from[f], largest), row);
      }
    }
  }

  // A slice's targets and columns, in the memory of the results.
  template <class Cells>
  void walk(int64_t o, Range rows, Range columns, Range targets, const Cells& cells, int64_t first_cell) const {
    const auto for_each_run = [&](auto&& function) {
      if (columns.end - columns.begin == p_.inner) {
        return function(first_cell + targets.begin * p_.inner, first_cell + targets.end * p_.inner);
      }
      for (int64_t t = targets.begin; t < targets.end; ++t) {
        function(first_cell + t * p_.inner + columns.begin, first_cell + t * p_.inner + columns.end);
      }
    };
    for_each_run([&](int64_t begin, int64_t end) { cells.clear(begin, end); });
    take_rows(o, rows, columns, targets, cells.from(first_cell));
    for_each_run([&](int64_t begin, int64_t end) { finish(cells, 0, begin, end); });
  }

  // Few outputs: every worker has cells for all of them, and a stretch of the rows.
  template <class Cells>
  void cut_rows(int64_t o, int workers) const {
    const int64_t outputs = p_.num_targets * p_.inner;
    const size_t bytes = round_up(static_cast<size_t>(outputs) * Cells::bytes_each(), kCacheLine);
    const Workspace memory(bytes * workers);
    const auto cells_of = [&](int64_t task) { return Cells::at(memory.data() + task * bytes, outputs); };
    run_tasks(workers, workers, [&](int, int64_t task) {
      const Cells cells = cells_of(task);
      cells.clear(0, outputs);
      take_rows(o, part(p_.num_rows, workers, task), {0, p_.inner}, {0, p_.num_targets}, cells);
    });
    parallel_for(0, outputs, int64_t{1} << 14, [&](int64_t begin, int64_t end) {
      const Cells all = cells_of(0);
      for (int task = 1; task < workers; ++task) {
        const Cells other = cells_of(task);
        for (int64_t i = begin; i < end; ++i) all.merge(i, other);
      }
      finish(all, o * outputs, begin, end);
    });
  }

  template <class Position>
  void solve_segment(int64_t o, const Grouping<Position>& grouping, int64_t segment, Range columns,
                     BestOfRows<Order, Position> best_of_rows) const {
    const int64_t first = (o * p_.num_targets + grouping.target(segment)) * p_.inner + columns.begin;
    const int64_t size = columns.end - columns.begin;
    const int64_t begin = grouping.offsets[segment];
    const int64_t end = grouping.offsets[segment + 1];
    if (begin == end) {
      for (int64_t f = 0; f < size; ++f) keep(first + f);
      return;
    }
    ExtremumSegment<Order, Position> job;
    typename ExtremumSegment<Order, Position>::Key best[kExtremumColumns];
    Position where[kExtremumColumns];
    job.src = source(o, 0) + columns.begin;
    job.inner = p_.inner;
    job.columns = size;
    job.rows = grouping.permutation == nullptr ? nullptr : grouping.permutation + begin;
    job.first_row = begin;
    job.num_rows = end - begin;
    job.largest = p_.largest;
    job.best = best;
    job.where = where;
    best_of_rows(job);
    for (int64_t f = 0; f < size; ++f) write(first + f, static_cast<Key>(best[f]), where[f]);
  }

  const Extremum& p_;
  mutable FirstPosition bad_;
};

template <class Order, class Index>
int64_t solve(const Extremum& problem) {
  const Solver<Order, Index> solver(problem);
  const int64_t bytes = std::max<int64_t>(sizeof(typename Order::Bits), 4);
  const int workers = workers_for(problem.outer * problem.num_rows * problem.inner * bytes, kBytesPerWorker);
  if constexpr (sizeof(typename Order::Key) <= 4) {
    const PartitionedExtremum<Order, Index> column(problem, workers);
    if (column.serves()) return column.run();
  }
  if (!solver.checks_index(workers)) {
    const int64_t bad =
        first_out_of_range(problem.index, problem.index_is_int64, problem.num_indices(), 0, problem.num_targets);
    if (bad >= 0) return bad;
  }
  const bool few_targets = problem.num_targets < int64_t{4} * workers && problem.inner < kExtremumColumns;
  if (problem.inner_stride == 0 && problem.row_stride == 1 && problem.inner >= kWide && problem.outer < workers * 2 &&
      !few_targets) {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const bool is_short = std::max(problem.num_rows, problem.num_targets) < kMost;
    is_short ? solver.template run_grouped<int32_t>(workers) : solver.template run_grouped<int64_t>(workers);
  } else if (sizeof(typename Order::Key) <= 4 && problem.num_rows < PackedCells::kMaxRows) {
    solver.template run<PackedCells>(workers);
  } else {
    solver.template run<WideCells>(workers);
  }
  return solver.first_out_of_range();
}

}  // namespace

int64_t extremum(const Extremum& problem) {
  const int64_t outputs = problem.outer * problem.num_targets * problem.inner;
  if (outputs == 0) return problem.num_indices() == 0 ? -1 : 0;
  // New results are fresh memory, whose page faults would cost more than the comparisons.
  prefer_huge_pages(problem.out, outputs * element_size(problem.dtype));
  prefer_huge_pages(problem.arg, outputs * static_cast<int64_t>(sizeof(int64_t)));
  int64_t bad = -1;
  with_order(problem.dtype, [&](auto order) {
    using Order = decltype(order);
    bad = problem.index_is_int64 ? solve<Order, int64_t>(problem) : solve<Order, int32_t>(problem);
  });
  return bad;
}

}  // namespace reprocuda::cpu
