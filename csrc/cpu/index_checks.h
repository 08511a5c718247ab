// Looks at an index before it is used: range and order.
#pragma once

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

// Whether the index never decreases. Costs next to nothing unless it does not.
template <class Index>
bool is_sorted_index(const Index* index, int64_t count);

// The first position of a sorted index outside [0, num_targets), or -1.
template <class Index>
int64_t first_bad_sorted(const Index* index, int64_t count, int64_t num_targets);

}  // namespace reprocuda::cpu
