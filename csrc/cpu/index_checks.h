// Looks at an index before it is used: range and order.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>

namespace reprocuda::cpu {

// The smallest of the positions that several workers note.
class FirstPosition {
 public:
  void note(int64_t position) {
    int64_t seen = position_.load(std::memory_order_relaxed);
    while (position < seen && !position_.compare_exchange_weak(seen, position, std::memory_order_relaxed)) {
    }
  }
  bool found() const { return position_.load(std::memory_order_relaxed) != kNone; }
  int64_t get() const { return found() ? position_.load(std::memory_order_relaxed) : -1; }

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> position_{kNone};
};

// Whether some of many indices lie outside [lower, upper), where lower <= 0 <= upper. Only signs are looked at, since baseline
// vector units compare no integers of 64 bits.
class OutsideRange {
 public:
  OutsideRange(int64_t lower, int64_t upper) : lower_(static_cast<uint64_t>(lower)), last_(static_cast<uint64_t>(upper) - 1) {}

  void look_at(int64_t index) {
    // An index so far out that the other difference wraps around has the sign of its own.
    signs_ |= (static_cast<uint64_t>(index) - lower_) | (last_ - static_cast<uint64_t>(index));
  }
  bool any() const { return signs_ >> 63 != 0; }

 private:
  uint64_t lower_;
  uint64_t last_;
  uint64_t signs_ = 0;
};

// The first position in [begin, end) whose index lies outside [lower, upper), or -1: quick where there is none.
template <class Index>
int64_t first_outside(const Index* index, int64_t begin, int64_t end, int64_t lower, int64_t upper) {
  OutsideRange seen(lower, upper);
  for (int64_t i = begin; i < end; ++i) seen.look_at(index[i]);
  if (!seen.any()) return -1;
  return std::find_if(index + begin, index + end, [&](int64_t at) { return at < lower || at >= upper; }) - index;
}

// The first position whose index lies outside [lower, upper), or -1: by all workers, the whole index.
int64_t first_out_of_range(const void* index, bool index_is_int64, int64_t count, int64_t lower, int64_t upper);

// Whether the index never decreases. Costs next to nothing unless it does not.
template <class Index>
bool is_sorted_index(const Index* index, int64_t count);

// The first position of a sorted index outside [0, num_targets), or -1.
template <class Index>
int64_t first_bad_sorted(const Index* index, int64_t count, int64_t num_targets);

}  // namespace reprocuda::cpu
