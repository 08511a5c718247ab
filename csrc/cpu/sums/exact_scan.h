// The exact fallback where nothing is grouped: one more pass over the contributions, which adds those of the uncertified
// outputs to pairs of doubles, and for what these do not prove another one to superaccumulators. Products go through
// integers of more and more words, the last of them one output after another.
//
// Guarantee: the exact result rounded once. Every worker has accumulators of its own for a window of outputs, merged at the
// end; the number of windows depends on how many outputs are uncertified and on the size of the pool, never on the data
// otherwise. Needs round-to-nearest mode. Cost: about 3 ns a contribution of an uncertified output and stage, 1 ns of any
// other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <type_traits>
#include <vector>

#include "../../numerics/exact_product.h"
#include "../../numerics/pair_sum.h"
#include "../parallel.h"
#include "../workspace.h"
#include "exact_format.h"
#include "stages.h"

namespace reprocuda::cpu {

inline constexpr int64_t kExactPoolBytes = int64_t{8} << 20;

// Outputs of one unit of work that the filter left over.
template <class T>
struct UncertifiedOutputs {
  const T* self;           // [num_outputs] or nullptr: a contribution
  T* out;                  // [num_outputs]
  Reduction reduction;
  int64_t num_outputs;
  int32_t* flagged;        // [count]; overwritten
  int64_t count;
  FirstStage first_stage;
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

// The superaccumulators of one worker.
template <class Format>
class WidePool {
 public:
  static constexpr int64_t kSlotBytes = (Format::kLimbs + 1) * sizeof(int64_t);
  static constexpr int64_t kMostAdds = ExactAccumulation<Format>::kMostAdds;

  WidePool(std::byte* memory, int64_t) : words_(reinterpret_cast<int64_t*>(memory)) {}
  void clear(int64_t slots) const { std::memset(words_, 0, slots * kSlotBytes); }
  void normalize(int64_t slots) const {
    for (int64_t slot = 0; slot < slots; ++slot) sum(slot).normalize();
  }
  template <class T>
  void add(int64_t slot, const Alpha& alpha, bool complex_pairs, const T* row, int64_t column) const {
    add_contribution<Format>(sum(slot), alpha, complex_pairs, row, column);
  }
  template <class T>
  void add_self(int64_t slot, T value) const { add_term(sum(slot), value); }
  void merge(const WidePool& other, int64_t slot) const { sum(slot).merge(other.sum(slot)); }
  template <class T>
  bool round(int64_t slot, T* result) const {
    *result = sum(slot).template round_mean<T>(1);
    return true;
  }

 protected:
  ExactSumOf<Format> sum(int64_t slot) const {
    int64_t* const limbs = words_ + slot * (Format::kLimbs + 1);
    return {limbs, 1, reinterpret_cast<uint32_t*>(limbs + Format::kLimbs)};
  }

 private:
  int64_t* words_;
};

// The same with a count of the terms, behind all of the sums.
template <class Format>
class MeanPool : public WidePool<Format> {
  using Base = WidePool<Format>;

 public:
  static constexpr int64_t kSlotBytes = Base::kSlotBytes + sizeof(int64_t);

  MeanPool(std::byte* memory, int64_t slots)
      : Base(memory, slots), counts_(reinterpret_cast<int64_t*>(memory + slots * Base::kSlotBytes)) {}
  void clear(int64_t slots) const {
    Base::clear(slots);
    std::fill_n(counts_, slots, int64_t{0});
  }
  template <class T>
  void add(int64_t slot, const Alpha& alpha, bool complex_pairs, const T* row, int64_t column) const {
    Base::add(slot, alpha, complex_pairs, row, column);
    ++counts_[slot];
  }
  template <class T>
  void add_self(int64_t slot, T value) const {
    Base::add_self(slot, value);
    ++counts_[slot];
  }
  void merge(const MeanPool& other, int64_t slot) const {
    Base::merge(other, slot);
    counts_[slot] += other.counts_[slot];
  }
  template <class T>
  bool round(int64_t slot, T* result) const {
    *result = this->sum(slot).template round_mean<T>(counts_[slot]);
    return true;
  }

 private:
  int64_t* counts_;
};

// Products of up to kWords words, of one worker: they do not merge.
template <int kWords>
class ProductPool {
 public:
  static constexpr int64_t kSlotBytes = sizeof(ExactProduct) + (kWords + ExactProduct::kSpareWords) * sizeof(uint32_t);
  static constexpr int64_t kMostAdds = std::numeric_limits<int64_t>::max();

  ProductPool(std::byte* memory, int64_t slots)
      : products_(reinterpret_cast<ExactProduct*>(memory)), words_(reinterpret_cast<uint32_t*>(products_ + slots)) {}
  void clear(int64_t slots) const {
    for (int64_t slot = 0; slot < slots; ++slot) {
      new (products_ + slot) ExactProduct(words_ + slot * (kWords + ExactProduct::kSpareWords), kWords);
    }
  }
  void normalize(int64_t) const {}
  template <class T>
  void add(int64_t slot, const Alpha&, bool, const T* row, int64_t column) const {
    add_self(slot, row[column]);
  }
  template <class T>
  void add_self(int64_t slot, T value) const { products_[slot].multiply(to_double(value)); }
  void merge(const ProductPool&, int64_t) const {}
  template <class T>
  bool round(int64_t slot, T* result) const { return products_[slot].round(result); }

 private:
  ExactProduct* products_;
  uint32_t* words_;
};

// The pairs of doubles of one worker.
template <bool kProducts>
class PairPool {
 public:
  static constexpr int64_t kSlotBytes = sizeof(PairSum);
  static constexpr int64_t kMostAdds = std::numeric_limits<int64_t>::max();

  PairPool(std::byte* memory, int64_t) : sums_(reinterpret_cast<PairSum*>(memory)) {}
  void clear(int64_t slots) const { std::fill_n(sums_, slots, PairSum{}); }
  void normalize(int64_t) const {}
  template <class T>
  void add(int64_t slot, const Alpha& alpha, bool complex_pairs, const T* row, int64_t column) const {
    if constexpr (!kProducts) {
      sums_[slot].add(to_double(row[column]));
    } else {
      sums_[slot].add(alpha.real * to_double(row[column]));  // exact in fp64
      if (complex_pairs) sums_[slot].add(((column & 1) ? alpha.imag : -alpha.imag) * to_double(row[column ^ 1]));
    }
  }
  template <class T>
  void add_self(int64_t slot, T value) const { sums_[slot].add(to_double(value)); }
  void merge(const PairPool& other, int64_t slot) const { sums_[slot].merge(other.sums_[slot]); }
  template <class T>
  bool round(int64_t slot, T* result) const { return sums_[slot].round(result); }

 private:
  PairSum* sums_;
};

// Sums the flagged outputs in accumulators of the kind Pool; returns how many it leaves, at the front of `flagged`.
template <class Pool, class T, class Source>
int64_t sum_in_pools(const UncertifiedOutputs<T>& outputs, const Alpha& alpha, bool complex_pairs, int64_t num_contributions,
                     int num_workers, const ExactShare& memory, Source&& source) {
  constexpr int32_t kDone = -1;
  const int64_t worker_bytes = memory.pool_bytes / num_workers / kCacheLine * kCacheLine;
  int32_t* const slots = memory.slots;
  const int64_t window = std::max<int64_t>(1, worker_bytes / Pool::kSlotBytes);
  const int64_t parts = std::max<int64_t>(num_workers, num_contributions / Pool::kMostAdds + 1);
  const auto pool_of = [&](int64_t worker) { return Pool(memory.pool + worker * worker_bytes, window); };
  const auto each_part = [&](int64_t count, auto&& run) {
    if (num_workers > 1) return run_tasks(num_workers, count, run);
    for (int64_t part = 0; part < count; ++part) run(0, part);
  };
  std::fill_n(slots, outputs.num_outputs, -1);
  int64_t left = 0;
  for (int64_t first = 0; first < outputs.count; first += window) {
    const int64_t size = std::min(window, outputs.count - first);
    int32_t* const flagged = outputs.flagged + first;
    for (int64_t slot = 0; slot < size; ++slot) slots[flagged[slot]] = static_cast<int32_t>(slot);
    each_part(num_workers, [&](int, int64_t worker) { pool_of(worker).clear(size); });
    each_part(parts, [&](int worker, int64_t part) {
      const Pool sums = pool_of(worker);
      source(part_begin(num_contributions, parts, part), part_begin(num_contributions, parts, part + 1),
             [&](int64_t output, const T* row, int64_t column) {
               const int32_t slot = slots[output];
               if (slot >= 0) sums.add(slot, alpha, complex_pairs, row, column);
             });
      if (parts > 1) sums.normalize(size);
    });
    for (int64_t slot = 0; slot < size; ++slot) slots[flagged[slot]] = -1;
    each_part(num_workers, [&](int, int64_t part) {
      const Pool sums = pool_of(0);
      for (int64_t slot = part_begin(size, num_workers, part); slot < part_begin(size, num_workers, part + 1); ++slot) {
        const int64_t output = flagged[slot];
        for (int other = 1; other < num_workers; ++other) sums.merge(pool_of(other), slot);
        if (outputs.self != nullptr) sums.add_self(slot, outputs.self[output]);
        T result;  // not in place: the next stage still needs `self`
        if (!sums.round(slot, &result)) continue;
        outputs.out[output] = result;
        flagged[slot] = kDone;
      }
    });
    for (int64_t slot = 0; slot < size; ++slot) {
      if (flagged[slot] != kDone) outputs.flagged[left++] = flagged[slot];
    }
  }
  return left;
}

// Multiplies the flagged outputs one after another, in as many words as each takes.
template <class T, class Source>
void multiply_whole(const UncertifiedOutputs<T>& outputs, int64_t num_contributions, Source&& source) {
  std::vector<uint32_t> words;
  const auto memory = [&](int64_t size) {
    if (size > static_cast<int64_t>(words.size())) words.resize(size);
    return words.data();
  };
  for (int64_t i = 0; i < outputs.count; ++i) {
    const int64_t wanted = outputs.flagged[i];
    const auto multiply_all = [&](ExactProduct& product) {
      if (outputs.self != nullptr) product.multiply(to_double(outputs.self[wanted]));
      source(int64_t{0}, num_contributions, [&](int64_t output, const T* row, int64_t column) {
        if (output == wanted) product.multiply(to_double(row[column]));
      });
    };
    T result{};  // not in place: the next round may need `self` again
    multiply_until_settled(num_contributions + 1, std::numeric_limits<int64_t>::max(), memory, multiply_all, &result);
    outputs.out[wanted] = result;
  }
}

// source(begin, end, visit) calls visit(output, row, column) for contributions [begin, end): alpha * row[column] belongs to
// `output`.
template <class T, class Source>
void sum_exactly(UncertifiedOutputs<T> outputs, const Alpha& alpha, bool complex_pairs, int64_t num_contributions,
                 int num_workers, const ExactShare& memory, Source&& source) {
  const auto reduce_in = [&](auto* pool, int workers) {
    using Pool = std::remove_pointer_t<decltype(pool)>;
    outputs.count = sum_in_pools<Pool>(outputs, alpha, complex_pairs, num_contributions, workers, memory, source);
  };
  if (outputs.reduction == Reduction::kProd) {
    if (outputs.first_stage != FirstStage::kWide) {
      reduce_in(static_cast<ProductPool<8>*>(nullptr), 1);
      if (outputs.count > 0) reduce_in(static_cast<ProductPool<64>*>(nullptr), 1);
      if (outputs.count > 0) reduce_in(static_cast<ProductPool<1500>*>(nullptr), 1);
    }
    return multiply_whole(outputs, num_contributions, source);
  }
  with_exact_format<T>(alpha, [&](auto format) {
    using Format = decltype(format);
    if (outputs.reduction == Reduction::kMean) return reduce_in(static_cast<MeanPool<Format>*>(nullptr), num_workers);
    if constexpr (!std::is_same_v<T, double>) {
      const bool by_pairs = outputs.first_stage != FirstStage::kWide;
      if (by_pairs) reduce_in(static_cast<PairPool<kHoldsProducts<Format>>*>(nullptr), num_workers);
    }
    if (outputs.count > 0) reduce_in(static_cast<WidePool<Format>*>(nullptr), num_workers);
  });
}

}  // namespace reprocuda::cpu
