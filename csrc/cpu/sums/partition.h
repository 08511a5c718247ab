// One key an element and many targets: keys and values are cut into ranges of targets whose cells fit in cache.
#pragma once

#include "element_keys.h"
#include "stages.h"

namespace reprocuda::cpu {

// An index that names the target of every value of a contiguous array; the element-wise keys of ElementKeys; each checks
// its index as it goes.
template <class T, class Index>
class IndexedValues {
 public:
  IndexedValues(const Index* index, const T* values, int64_t num_targets, int64_t ignored)
      : index_(index), values_(values), num_targets_(num_targets), ignored_(ignored) {}

  // Calls visit(key); returns the position of the first bad index, where it stops, or -1.
  template <class Visit>
  int64_t for_each_key(int64_t begin, int64_t end, Visit&& visit) const {
    const uint64_t bound = static_cast<uint64_t>(num_targets_);
    const Index* const index = index_;
    const int64_t ignored = ignored_;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key = index[i];
      if (static_cast<uint64_t>(key) >= bound) return i;
      if (key != ignored) visit(key);
    }
    return -1;
  }
  template <class Visit>
  void for_each(int64_t begin, int64_t end, Visit&& visit) const {
    const Index* const index = index_;
    const T* const values = values_;
    const int64_t ignored = ignored_;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t key = index[i];
      if (key != ignored) visit(key, values[i]);
    }
  }

 private:
  const Index* index_;
  const T* values_;
  int64_t num_targets_;
  int64_t ignored_;
};

template <class T>
class ElementValues {
 public:
  ElementValues(const ElementKeys& keys, bool complex_pairs) : keys_(keys), complex_pairs_(complex_pairs) {}

  template <class Visit>
  int64_t for_each_key(int64_t begin, int64_t end, Visit&& visit) const {
    if (!complex_pairs_) return keys_.for_each_key(begin, end, visit);
    return keys_.for_each_key(begin, end, [&](int64_t key) {
      visit(2 * key);
      visit(2 * key + 1);
    });
  }
  template <class Visit>
  void for_each(int64_t begin, int64_t end, Visit&& visit) const {
    struct Pair {
      T re, im;
    };
    if (!complex_pairs_) return keys_.for_each<T>(begin, end, visit);
    keys_.for_each<Pair>(begin, end, [&](int64_t key, Pair pair) {
      visit(2 * key, pair.re);
      visit(2 * key + 1, pair.im);
    });
  }

 private:
  const ElementKeys& keys_;
  bool complex_pairs_;
};

// Outputs of the problem, one a target.
template <class T>
struct PartitionProblem {
  const T* self;           // [num_targets] or nullptr
  bool include_self;
  Reduction reduction;
  T* out;                  // [num_targets]
  int64_t num_targets;
  int64_t num_elements;    // positions of the source of keys
  int64_t num_entries;     // keys and values it yields at most
  Alpha alpha;
  FirstStage first_stage;
  int max_workers;
};

// Returns the position of the first bad index, or -1. Throws std::bad_alloc.
template <class T, class Source>
int64_t sum_by_partition(const PartitionProblem<T>& problem, const Source& source);

}  // namespace reprocuda::cpu
