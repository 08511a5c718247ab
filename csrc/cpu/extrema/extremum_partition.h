// Extrema with their positions of one column with more targets than a cache has cells for: rows are counted, moved to ranges of
// targets, and compared there.
//
// Cost: 12 bytes a row of temporary memory, and three passes in the order of memory instead of one that misses the cache at
// every row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "../index_checks.h"
#include "../parallel.h"
#include "../workspace.h"
#include "extremum_cells.h"
#include "extremum_kernel.h"

namespace reprocuda::cpu {

inline constexpr int64_t kExtremumBlock = 1024;              // rows or outputs between two calls of a kernel
inline constexpr int64_t kPrivateExtremumBytes = 1 << 20;    // of cells that every worker can have for itself

// The results of cells [begin, end), of which cell 0 is that of output `first`. Without a branch on who wins, which is as good
// as random.
template <class Order>
void finish_packed(const Extremum& problem, const PackedCells& cells, int64_t first, int64_t begin, int64_t end) {
  using Bits = typename Order::Bits;
  uint64_t packed[kExtremumBlock];  // the cells may lie where the positions go
  for (int64_t at = begin; at < end; at += kExtremumBlock) {
    const int64_t count = std::min(kExtremumBlock, end - at);
    const int64_t to = first + at;
    std::copy_n(cells.cells + at, count, packed);
    const Bits* const self = problem.self == nullptr ? nullptr : static_cast<const Bits*>(problem.self) + to;
    packing_kernels<Order>().unpack({packed, self, static_cast<Bits*>(problem.out) + to, problem.arg + to, count,
                                     problem.num_rows, problem.largest});
  }
}

template <class Order, class Index>
class PartitionedExtremum {
  static constexpr int64_t kFewestRows = 1 << 16;
  static constexpr int kRangeBits = 15;  // of targets, whose cells stay in the second-level cache
  static constexpr int kMostRangesBits = 10;

 public:
  PartitionedExtremum(const Extremum& problem, int workers) : p_(problem), workers_(workers) {
    const int bits = std::bit_width(static_cast<uint64_t>(p_.num_targets - 1));
    shift_ = std::max(kRangeBits, bits - kMostRangesBits);
    num_ranges_ = ((p_.num_targets - 1) >> shift_) + 1;
  }

  bool serves() const {
    return p_.outer == 1 && p_.is_column() && p_.num_rows >= kFewestRows && p_.num_rows < PackedCells::kMaxRows &&
           p_.num_targets * static_cast<int64_t>(PackedCells::bytes_each()) > kPrivateExtremumBytes;
  }

  // The first position of the index that is out of range, before anything is written, or -1.
  int64_t run() const {
    const int64_t range_targets = int64_t{1} << shift_;
    int64_t* next = nullptr;     // [workers][num_ranges]
    Entry* entries = nullptr;    // [num_rows], grouped by range
    uint64_t* cells = nullptr;   // [workers][range_targets]
    const Workspace memory = lease([&](Layout& layout) {
      next = layout.take<int64_t>(workers_ * num_ranges_);
      entries = layout.take<Entry>(p_.num_rows);
      cells = layout.take<uint64_t>(workers_ * range_targets);
    });
    FirstPosition bad;
    for_each_share([&](int64_t share, int64_t begin, int64_t end) {
      const int64_t outside = count_rows(begin, end, next + share * num_ranges_);
      if (outside >= 0) bad.note(outside);
    });
    if (bad.found()) return bad.get();
    int64_t running = 0;
    for (int64_t range = 0; range < num_ranges_; ++range) {
      for (int worker = 0; worker < workers_; ++worker) running += std::exchange(next[worker * num_ranges_ + range], running);
    }
    for_each_share([&](int64_t share, int64_t begin, int64_t end) {
      move_rows(begin, end, next + share * num_ranges_, entries);
    });
    const int64_t* const ends = next + (workers_ - 1) * num_ranges_;  // where the ranges end, by now
    run_tasks(workers_, num_ranges_, [&](int worker, int64_t range) {
      const int64_t first = range << shift_;
      const PackedCells mine{cells + worker * range_targets};
      mine.clear(0, range_targets);
      for (int64_t at = range == 0 ? 0 : ends[range - 1]; at < ends[range]; ++at) {
        uint64_t& cell = mine.cells[entries[at].target];
        cell = std::max(cell, (static_cast<uint64_t>(entries[at].key) << 32) | entries[at].row);
      }
      finish_packed<Order>(p_, mine, first, 0, std::min(range_targets, p_.num_targets - first));
    });
    return -1;
  }

 private:
  // A row on its way: its target, from the first of the range, and the halves of what its cell is to hold.
  struct Entry {
    uint32_t target;
    uint32_t key;
    uint32_t row;
  };

  const Index* index() const { return static_cast<const Index*>(p_.index); }

  template <class Share>
  void for_each_share(Share&& share) const {
    run_tasks(workers_, workers_, [&](int, int64_t which) {
      share(which, part_begin(p_.num_rows, workers_, which), part_begin(p_.num_rows, workers_, which + 1));
    });
  }

  // The rows of each range, unless an index is out of range: then its position, else -1.
  int64_t count_rows(int64_t first, int64_t last, int64_t* counts) const {
    std::fill_n(counts, num_ranges_, int64_t{0});
    for (int64_t begin = first; begin < last; begin += kExtremumBlock) {
      const int64_t end = std::min(begin + kExtremumBlock, last);
      const int64_t bad = first_outside(index(), begin, end, 0, p_.num_targets);
      if (bad >= 0) return bad;
      for (int64_t row = begin; row < end; ++row) ++counts[index()[row] >> shift_];
    }
    return -1;
  }

  void move_rows(int64_t first, int64_t last, int64_t* next, Entry* entries) const {
    const uint32_t low = static_cast<uint32_t>((int64_t{1} << shift_) - 1);
    uint64_t packed[kExtremumBlock];
    for (int64_t begin = first; begin < last; begin += kExtremumBlock) {
      const int64_t count = std::min(kExtremumBlock, last - begin);
      packing_kernels<Order>().pack(static_cast<const typename Order::Bits*>(p_.src) + begin, count, p_.largest, begin, packed);
      for (int64_t i = 0; i < count; ++i) {
        const int64_t target = index()[begin + i];
        const int64_t at = next[target >> shift_]++;
        entries[at].target = static_cast<uint32_t>(target) & low;
        entries[at].key = static_cast<uint32_t>(packed[i] >> 32);
        entries[at].row = static_cast<uint32_t>(packed[i]);
        __builtin_prefetch(entries + at + 2 * kCacheLine / sizeof(Entry), 1);
      }
    }
  }

  const Extremum& p_;
  int workers_;
  int shift_ = 0;
  int64_t num_ranges_ = 1;
};

}  // namespace reprocuda::cpu
