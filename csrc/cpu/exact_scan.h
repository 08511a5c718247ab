// The exact fallback where nothing is grouped: one more pass over the contributions, which adds those of the uncertified
// outputs to superaccumulators.
//
// Guarantee: the exact sum rounded once. Every worker has accumulators of its own for a window of outputs, merged at the
// end; the number of windows depends on how many outputs are uncertified and on the size of the pool, never on the data
// otherwise. Cost: about 3 ns a contribution of an uncertified output, 1 ns of any other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "exact_format.h"
#include "parallel.h"
#include "workspace.h"

namespace reprocuda::cpu {

inline constexpr int64_t kExactPoolBytes = int64_t{8} << 20;

// Outputs of one unit of work that the filter left over.
template <class T>
struct UncertifiedOutputs {
  const T* self;           // [num_outputs] or nullptr
  T* out;                  // [num_outputs]
  const int64_t* counts;   // [num_outputs / inner] for the mean, or nullptr
  int64_t inner;
  int64_t num_outputs;
  const int32_t* flagged;  // [count]
  int64_t count;
};

// What one call of sum_exactly works in.
struct ExactShare {
  int32_t* slots;    // [num_outputs]
  std::byte* pool;
  int64_t pool_bytes;
};

// The same for several calls at once, which share the pool.
class ExactMemory {
 public:
  ExactMemory(int64_t num_outputs, int num_shares) : num_outputs_(num_outputs), num_shares_(num_shares) {
    memory_ = lease([&](Layout& layout) {
      slots_ = layout.take<int32_t>(num_outputs * num_shares);
      pool_ = layout.take<std::byte>(kExactPoolBytes);
    });
  }
  ExactShare share(int which) const {
    const int64_t bytes = kExactPoolBytes / num_shares_ / kCacheLine * kCacheLine;
    return {slots_ + which * num_outputs_, pool_ + which * bytes, bytes};
  }

 private:
  Workspace memory_;
  int64_t num_outputs_;
  int num_shares_;
  int32_t* slots_ = nullptr;
  std::byte* pool_ = nullptr;
};

// The pool of one worker.
template <class Format>
class ExactPool {
 public:
  static constexpr int64_t kSlotBytes = (Format::kLimbs + 1) * sizeof(int64_t);

  explicit ExactPool(std::byte* memory) : words_(reinterpret_cast<int64_t*>(memory)) {}
  ExactSumOf<Format> operator[](int64_t slot) const {
    int64_t* const limbs = words_ + slot * (Format::kLimbs + 1);
    return {limbs, 1, reinterpret_cast<uint32_t*>(limbs + Format::kLimbs)};
  }
  void clear(int64_t slots) const { std::memset(words_, 0, slots * kSlotBytes); }
  void normalize(int64_t slots) const {
    for (int64_t slot = 0; slot < slots; ++slot) (*this)[slot].normalize();
  }

 private:
  int64_t* words_;
};

// source(begin, end, visit) calls visit(output, row, column) for contributions [begin, end): alpha * row[column] belongs to
// `output`.
template <class T, class Source>
void sum_exactly(const UncertifiedOutputs<T>& outputs, const Alpha& alpha, bool complex_pairs, int64_t num_contributions,
                 int num_workers, const ExactShare& memory, Source&& source) {
  with_exact_format<T>(alpha, [&](auto format) {
    using Format = decltype(format);
    const int64_t worker_bytes = memory.pool_bytes / num_workers / kCacheLine * kCacheLine;
    int32_t* const slots = memory.slots;
    const int64_t window = std::max<int64_t>(1, worker_bytes / ExactPool<Format>::kSlotBytes);
    const int64_t parts = std::max<int64_t>(num_workers, num_contributions / ExactAccumulation<Format>::kMostAdds + 1);
    const auto pool_of = [&](int64_t worker) { return ExactPool<Format>(memory.pool + worker * worker_bytes); };
    std::fill_n(slots, outputs.num_outputs, -1);
    for (int64_t first = 0; first < outputs.count; first += window) {
      const int64_t size = std::min(window, outputs.count - first);
      const int32_t* const flagged = outputs.flagged + first;
      for (int64_t slot = 0; slot < size; ++slot) slots[flagged[slot]] = static_cast<int32_t>(slot);
      run_tasks(num_workers, num_workers, [&](int, int64_t worker) { pool_of(worker).clear(size); });
      run_tasks(num_workers, parts, [&](int worker, int64_t part) {
        const ExactPool<Format> sums = pool_of(worker);
        source(part_begin(num_contributions, parts, part), part_begin(num_contributions, parts, part + 1),
               [&](int64_t output, const T* row, int64_t column) {
                 const int32_t slot = slots[output];
                 if (slot >= 0) add_contribution<Format>(sums[slot], alpha, complex_pairs, row, column);
               });
        if (parts > 1) sums.normalize(size);
      });
      run_tasks(num_workers, num_workers, [&](int, int64_t part) {
        for (int64_t slot = part_begin(size, num_workers, part); slot < part_begin(size, num_workers, part + 1); ++slot) {
          const int64_t output = flagged[slot];
          const ExactSumOf<Format> sum = pool_of(0)[slot];
          for (int other = 1; other < num_workers; ++other) sum.merge(pool_of(other)[slot]);
          if (outputs.self != nullptr) add_term(sum, outputs.self[output]);
          outputs.out[output] = sum.template round_mean<T>(outputs.counts == nullptr ? 1 : outputs.counts[output / outputs.inner]);
        }
      });
      for (int64_t slot = 0; slot < size; ++slot) slots[flagged[slot]] = -1;
    }
  });
}

}  // namespace reprocuda::cpu
