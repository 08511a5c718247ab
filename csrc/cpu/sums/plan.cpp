#include "plan.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "../index_checks.h"
#include "../parallel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kRowsPerWorker = 1 << 14;   // below this a second thread costs more than it saves
constexpr int64_t kDirectTargets = 1 << 15;   // counters of a one-level sort that still fit in the second-level cache
constexpr int64_t kBucketTargets = 1 << 11;   // targets of a bucket in a two-level sort, while that makes few buckets
constexpr int64_t kMaxBuckets = 1 << 11;
constexpr int64_t kFewPairs = 64;             // below this a comparison sort is faster
constexpr int64_t kRadixPairs = 1 << 16;      // a sparse bucket up to this size is sorted by digits, half a megabyte a worker
constexpr int64_t kSparse = 4;                // targets a row from which on empty segments are left out

// A row under way to its bucket; the order of pairs is the stable order by target.
template <class Position>
struct Pair {
  std::make_unsigned_t<Position> key;
  std::make_unsigned_t<Position> row;
  friend bool operator<(const Pair& a, const Pair& b) { return a.key != b.key ? a.key < b.key : a.row < b.row; }
};

// Stable sort by the low `bits` of the keys, a byte at a time. `spare` holds as many pairs.
template <class Position>
void sort_by_digits(Pair<Position>* pairs, Pair<Position>* spare, int64_t count, int bits) {
  constexpr int kDigitBits = 8;
  Pair<Position>* from = pairs;
  Pair<Position>* to = spare;
  for (int low = 0; low < bits; low += kDigitBits) {
    uint32_t next[1 << kDigitBits] = {};
    const auto digit = [low](const Pair<Position>& pair) { return (pair.key >> low) & ((1 << kDigitBits) - 1); };
    for (int64_t i = 0; i < count; ++i) ++next[digit(from[i])];
    uint32_t running = 0;
    for (uint32_t& start : next) running += std::exchange(start, running);
    for (int64_t i = 0; i < count; ++i) to[next[digit(from[i])]++] = from[i];
    std::swap(from, to);
  }
  if (from != pairs) std::copy_n(from, count, pairs);
}

// Where the sort writes. `targets` is null when every target is listed.
template <class Position>
struct Output {
  Position* permutation;
  Position* offsets;
  Position* targets;
};

// Counters [bucket][worker] become first positions, in place.
template <class Count>
void exclusive_scan(Count* counts, int64_t num_buckets, int num_workers, int64_t worker_stride) {
  Count running = 0;
  for (int64_t bucket = 0; bucket < num_buckets; ++bucket) {
    for (int worker = 0; worker < num_workers; ++worker) {
      Count& count = counts[worker * worker_stride + bucket];
      running += std::exchange(count, running);
    }
  }
}

template <class Index, class Position>
class Grouper {
 public:
  Grouper(const Index* index, int64_t num_rows, int64_t num_targets, Output<Position> output)
      : index_(index), num_rows_(num_rows), num_targets_(num_targets), output_(output),
        num_workers_(workers_for(num_rows, kRowsPerWorker)) {}

  // Sorted input: the offsets are where the index changes. Returns the number of segments.
  int64_t mark_sorted() {
    return output_.targets == nullptr ? mark_sorted_dense() : mark_sorted_sparse();
  }

  // One counting sort with a counter for every target. Returns the position of a bad index, or -1.
  int64_t sort_directly() {
    Position* counts = nullptr;
    const Workspace memory = lease([&](Layout& layout) { counts = layout.take<Position>(num_workers_ * num_targets_); });
    const int64_t bad = count(counts, num_targets_, 0);
    if (bad >= 0) return bad;
    exclusive_scan(counts, num_targets_, num_workers_, num_targets_);
    std::copy_n(counts, num_targets_, output_.offsets);
    output_.offsets[num_targets_] = static_cast<Position>(num_rows_);
    for_each_share([&](int worker, int64_t first, int64_t last) {
      Position* const next = counts + worker * num_targets_;
      Position* const permutation = output_.permutation;
      for (int64_t row = first; row < last; ++row) permutation[next[index_[row]]++] = static_cast<Position>(row);
    });
    return -1;
  }

  // Cut into buckets of consecutive targets, then sort every bucket on its own. Returns the position of a bad index, or -1.
  int64_t sort_by_buckets(int64_t* num_segments) {
    const int bits = std::bit_width(static_cast<uint64_t>(num_targets_ - 1));
    const bool sparse = output_.targets != nullptr;
    const int bucket_bits = std::bit_width(static_cast<uint64_t>(num_rows_ / 512));
    int shift = std::max<int>(bits - std::bit_width(static_cast<uint64_t>(kMaxBuckets)) + 1, 0);
    shift = std::max<int>(shift, sparse ? bits - bucket_bits : std::countr_zero(static_cast<uint64_t>(kBucketTargets)));
    shift = std::clamp(shift, 0, bits);
    const int64_t num_buckets = ((num_targets_ - 1) >> shift) + 1;
    const int64_t bucket_targets = int64_t{1} << shift;

    Position* starts = nullptr;
    Position* segments = nullptr;
    Position* local_counts = nullptr;
    Pair<Position>* pairs = nullptr;
    Pair<Position>* spare = nullptr;
    const int64_t spare_pairs = sparse ? std::min(num_rows_, kRadixPairs) : 0;
    const Workspace memory = lease([&](Layout& layout) {
      starts = layout.take<Position>(num_workers_ * num_buckets + 1);
      segments = layout.take<Position>(num_buckets);
      // A bucket with too few rows for its targets is sorted without counters.
      local_counts = layout.take<Position>(sparse && num_rows_ < bucket_targets / kSparse ? 0 : num_workers_ * bucket_targets);
      pairs = layout.take<Pair<Position>>(num_rows_);
      spare = layout.take<Pair<Position>>(num_workers_ * spare_pairs);
    });
    const int64_t bad = count(starts, num_buckets, shift);
    if (bad >= 0) return bad;
    exclusive_scan(starts, num_buckets, num_workers_, num_buckets);
    for_each_share([&](int worker, int64_t first, int64_t last) {
      using Key = std::make_unsigned_t<Position>;
      Position* const next = starts + worker * num_buckets;
      const Index* const index = index_;
      for (int64_t row = first; row < last; ++row) {
        const Key key = static_cast<Key>(index[row]);
        const int64_t at = next[key >> shift]++;
        pairs[at] = {key, static_cast<Key>(row)};
        // Buckets whose distance is a multiple of a cache way evict each other's lines while these wait to be owned.
        __builtin_prefetch(pairs + at + 2 * kCacheLine / sizeof(*pairs), 1);
      }
    });
    // Now the last worker's counters hold where each bucket ends.
    const Position* const ends = starts + (num_workers_ - 1) * num_buckets;
    run_tasks(num_workers_, num_buckets, [&](int worker, int64_t bucket) {
      const int64_t first = bucket == 0 ? 0 : ends[bucket - 1];
      const int64_t size = ends[bucket] - first;
      if (sparse && size < bucket_targets / kSparse) {
        if (size > kFewPairs && size <= spare_pairs) {
          sort_by_digits(pairs + first, spare + worker * spare_pairs, size, shift);
        } else {
          std::sort(pairs + first, pairs + ends[bucket]);
        }
        segments[bucket] = emit_sorted(pairs, first, ends[bucket]);
      } else {
        segments[bucket] = count_bucket(bucket << shift, bucket_targets, pairs, first, ends[bucket],
                                        local_counts + worker * bucket_targets);
      }
    });
    if (!sparse) {
      output_.offsets[num_targets_] = static_cast<Position>(num_rows_);
      *num_segments = num_targets_;
      return -1;
    }
    int64_t written = 0;
    for (int64_t bucket = 0; bucket < num_buckets; ++bucket) {
      const int64_t first = bucket == 0 ? 0 : ends[bucket - 1];
      std::memmove(output_.targets + written, output_.targets + first, segments[bucket] * sizeof(Position));
      std::memmove(output_.offsets + written, output_.offsets + first, segments[bucket] * sizeof(Position));
      written += segments[bucket];
    }
    output_.offsets[written] = static_cast<Position>(num_rows_);
    *num_segments = written;
    return -1;
  }

 private:
  template <class Share>
  void for_each_share(Share&& share) {
    run_tasks(num_workers_, num_workers_, [&](int, int64_t part) {
      share(static_cast<int>(part), part_begin(num_rows_, num_workers_, part), part_begin(num_rows_, num_workers_, part + 1));
    });
  }

  // Histogram of index >> shift per worker, and the bounds check.
  int64_t count(Position* counts, int64_t num_buckets, int shift) {
    FirstPosition bad;
    for_each_share([&](int worker, int64_t first, int64_t last) {
      Position* const mine = counts + worker * num_buckets;
      std::fill_n(mine, num_buckets, Position{0});
      for (int64_t row = first; row < last; ++row) {
        const uint64_t key = static_cast<uint64_t>(static_cast<int64_t>(index_[row]));
        if (key >= static_cast<uint64_t>(num_targets_)) return bad.note(row);
        ++mine[key >> shift];
      }
    });
    return bad.get();
  }

  // Returns the number of segments written at `first` of a sparse output.
  Position count_bucket(int64_t first_target, int64_t bucket_targets, const Pair<Position>* pairs, int64_t first, int64_t last,
                        Position* counts) {
    const int64_t listed = std::min(bucket_targets, num_targets_ - first_target);
    std::fill_n(counts, listed, Position{0});
    for (int64_t i = first; i < last; ++i) ++counts[pairs[i].key - first_target];
    Position running = static_cast<Position>(first);
    Position segments = 0;
    for (int64_t t = 0; t < listed; ++t) {
      const Position size = std::exchange(counts[t], running);
      if (output_.targets == nullptr) {
        output_.offsets[first_target + t] = running;
      } else if (size != 0) {
        output_.offsets[first + segments] = running;
        output_.targets[first + segments++] = static_cast<Position>(first_target + t);
      }
      running += size;
    }
    for (int64_t i = first; i < last; ++i) {
      output_.permutation[counts[pairs[i].key - first_target]++] = static_cast<Position>(pairs[i].row);
    }
    return segments;
  }

  Position emit_sorted(const Pair<Position>* pairs, int64_t first, int64_t last) {
    Position segments = 0;
    for (int64_t i = first; i < last; ++i) {
      output_.permutation[i] = static_cast<Position>(pairs[i].row);
      if (i == first || pairs[i].key != pairs[i - 1].key) {
        output_.offsets[first + segments] = static_cast<Position>(i);
        output_.targets[first + segments++] = static_cast<Position>(pairs[i].key);
      }
    }
    return segments;
  }

  int64_t mark_sorted_dense() {
    for_each_share([&](int, int64_t first, int64_t last) {
      int64_t target = first == 0 ? -1 : static_cast<int64_t>(index_[first - 1]);
      for (int64_t row = first; row < last; ++row) {
        for (const int64_t next = index_[row]; target < next;) output_.offsets[++target] = static_cast<Position>(row);
      }
      if (last == num_rows_) {
        while (target < num_targets_) output_.offsets[++target] = static_cast<Position>(num_rows_);
      }
    });
    return num_targets_;
  }

  int64_t mark_sorted_sparse() {
    int64_t segments = 0;
    for (int64_t row = 0; row < num_rows_; ++row) {
      if (row != 0 && index_[row] == index_[row - 1]) continue;
      output_.offsets[segments] = static_cast<Position>(row);
      output_.targets[segments++] = static_cast<Position>(index_[row]);
    }
    output_.offsets[segments] = static_cast<Position>(num_rows_);
    return segments;
  }

  const Index* index_;
  int64_t num_rows_;
  int64_t num_targets_;
  Output<Position> output_;
  int num_workers_;
};

bool few_counters(int64_t num_rows, int64_t num_targets) {
  return num_targets <= kDirectTargets || (num_rows <= kRowsPerWorker && num_targets <= num_rows);
}

}  // namespace

template <class Index, class Position>
OwnedGrouping<Position> group_rows(const Index* index, int64_t num_rows, int64_t num_targets) {
  OwnedGrouping<Position> grouping;
  grouping.num_rows = num_rows;
  const bool sparse = num_targets / kSparse > num_rows;
  const bool sorted = is_sorted_index(index, num_rows);
  if (sorted && (grouping.first_bad = first_bad_sorted(index, num_rows, num_targets)) >= 0) return grouping;

  Output<Position> output{};
  grouping.memory = lease([&](Layout& layout) {
    output.permutation = sorted ? nullptr : layout.take<Position>(num_rows);
    output.offsets = layout.take<Position>((sparse ? num_rows : num_targets) + 1);
    output.targets = sparse ? layout.take<Position>(num_rows) : nullptr;
  });
  Grouper<Index, Position> grouper(index, num_rows, num_targets, output);
  if (sorted) {
    grouping.num_segments = grouper.mark_sorted();
  } else if (!sparse && few_counters(num_rows, num_targets)) {
    grouping.first_bad = grouper.sort_directly();
    grouping.num_segments = num_targets;
  } else {
    grouping.first_bad = grouper.sort_by_buckets(&grouping.num_segments);
  }
  grouping.permutation = output.permutation;
  grouping.offsets = output.offsets;
  grouping.targets = output.targets;
  return grouping;
}

template OwnedGrouping<int32_t> group_rows(const int32_t*, int64_t, int64_t);
template OwnedGrouping<int32_t> group_rows(const int64_t*, int64_t, int64_t);
template OwnedGrouping<int64_t> group_rows(const int32_t*, int64_t, int64_t);
template OwnedGrouping<int64_t> group_rows(const int64_t*, int64_t, int64_t);

template <class Index>
int64_t group_rows_into(const Index* index, int64_t num_rows, int64_t num_targets, int64_t* permutation, int64_t* offsets) {
  Grouper<Index, int64_t> grouper(index, num_rows, num_targets, {permutation, offsets, nullptr});
  if (is_sorted_index(index, num_rows)) {
    const int64_t bad = first_bad_sorted(index, num_rows, num_targets);
    if (bad >= 0) return bad;
    grouper.mark_sorted();
    for (int64_t row = 0; row < num_rows; ++row) permutation[row] = row;
    return -1;
  }
  int64_t num_segments = 0;
  return few_counters(num_rows, num_targets) ? grouper.sort_directly() : grouper.sort_by_buckets(&num_segments);
}

int64_t build_plan(
    const void* index,     // [num_rows]
    bool index_is_int64,
    int64_t num_rows,
    int64_t num_targets,
    int64_t* permutation,  // [num_rows]
    int64_t* offsets) {    // [num_targets + 1]
  if (index_is_int64) {
    return group_rows_into(static_cast<const int64_t*>(index), num_rows, num_targets, permutation, offsets);
  }
  return group_rows_into(static_cast<const int32_t*>(index), num_rows, num_targets, permutation, offsets);
}

}  // namespace reprocuda::cpu
