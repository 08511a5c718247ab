// Shared by the launchers that need no grouping: what the two problems differ in, beyond their keys.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "../kernels/fixed_point_compose.cuh"
#include "../kernels/keys.cuh"
#include "../problems/accumulation.h"
#include "context.h"
#include "grid.h"

namespace reprocuda::cuda {

struct NoSortOptions {
  Dtype dtype = Dtype::kFloat32;
  const void* self = nullptr;  // as a contribution
  const void* kept = nullptr;  // what an output without contributions keeps
  const void* src = nullptr;
  void* out = nullptr;
  bool complex_pairs = false;
  Alpha alpha;
  bool mean = false;
  int64_t num_targets = 0;     // that are counted apart
  int64_t most = 1;            // contributions to one output

  // Also where nothing but a count can tell an output that keeps `kept` from one whose contributions cancel.
  bool counts() const { return mean || kept != self; }
  int64_t num_counts() const { return counts() ? num_targets : 0; }
};

inline bool has_plan(const Accumulation& problem) { return problem.plan != nullptr; }
inline bool has_plan(const ElementAccumulation&) { return false; }

inline NoSortOptions no_sort_options(const Accumulation& p) {
  return {p.dtype, p.start(), p.self, p.src, p.out, p.complex_pairs, p.alpha, p.mean(), p.num_targets, most_contributions(p)};
}

inline NoSortOptions no_sort_options(const ElementAccumulation& p) {
  const int64_t num_targets = make_keys(p).num_outputs;
  return {p.dtype, p.start(), p.self, p.src, p.out, p.complex_pairs, Alpha{}, p.mean(), num_targets, most_contributions(p)};
}

template <class T>
OutputRule<T> output_rule(const NoSortOptions& options, const unsigned long long* counts) {
  OutputRule<T> rule;
  rule.self = static_cast<const T*>(options.self);
  rule.kept = static_cast<const T*>(options.kept);
  rule.counts = counts;
  rule.divides = options.mean;
  rule.scaled = !options.alpha.is_one;
  rule.pairs = rule.scaled && options.complex_pairs;
  rule.real = options.alpha.real;
  rule.imag = options.alpha.imag;
  return rule;
}

// Several arrays in one piece of temporary memory: asking for memory costs the host more than a launch.
class Layout {
 public:
  template <class T>
  void add(T** array, int64_t count) {
    if (num_parts_ == kMostParts) throw std::logic_error("reprocuda: a layout has room for 8 arrays");
    parts_[num_parts_++] = {[](void* where, char* memory) { *static_cast<T**>(where) = reinterpret_cast<T*>(memory); }, array,
                            bytes_};
    bytes_ += (std::max<int64_t>(count, 1) * static_cast<int64_t>(sizeof(T)) + 255) / 256 * 256;
  }

  // Sets every pointer that was added.
  void allocate(const Context& context) {
    char* memory = context.temporary<char>(bytes_);
    for (int i = 0; i < num_parts_; ++i) parts_[i].set(parts_[i].where, memory + parts_[i].offset);
  }

 private:
  struct Part {
    void (*set)(void* where, char* memory);
    void* where;
    int64_t offset;
  };
  static constexpr int kMostParts = 8;
  Part parts_[kMostParts];
  int num_parts_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace reprocuda::cuda
