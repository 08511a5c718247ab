#include "integers.h"

#include <algorithm>
#include <type_traits>

#include "accumulate.h"
#include "element_keys.h"
#include "outputs.h"
#include "parallel.h"
#include "workspace.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 16;

// A bool in torch's storage; adding is OR.
struct Bool {
  uint8_t bits;
};

inline void add(Bool& sum, Bool term) { sum.bits = (sum.bits != 0) | (term.bits != 0); }
inline Bool scale(Bool x, int64_t alpha) { return {static_cast<uint8_t>(x.bits != 0 && alpha != 0)}; }

template <class U>
inline void add(U& sum, U term) {
  sum = static_cast<U>(sum + term);
}
template <class U>
inline U scale(U x, int64_t alpha) {
  return static_cast<U>(x * static_cast<U>(alpha));
}

// Calls function(U{}) with the unsigned type in which a dtype wraps around.
template <class Function>
void with_storage(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kBool: return function(Bool{});
    case Dtype::kUInt8:
    case Dtype::kInt8: return function(uint8_t{});
    case Dtype::kInt16: return function(uint16_t{});
    case Dtype::kInt32: return function(uint32_t{});
    default: return function(uint64_t{});
  }
}

template <class U, class Index>
class IntegerRows {
 public:
  IntegerRows(const Accumulation& problem, const Index* index)
      : problem_(problem), index_(index), permutation_(problem.plan == nullptr ? nullptr : problem.plan->permutation),
        src_(static_cast<const U*>(problem.src)), out_(static_cast<U*>(problem.out)) {}

  // Every worker owns a stripe of slices, columns or targets, whichever gives each enough to do, so that no two workers
  // meet in one output.
  void run() {
    const int64_t outputs = problem_.num_targets * problem_.inner;
    const int workers = workers_for(problem_.outer * problem_.num_rows * problem_.inner, kElementsPerWorker);
    if (problem_.outer >= workers) {
      run_tasks(workers, problem_.outer, [&](int, int64_t slice) { add_rows(slice, 0, problem_.num_targets, 0, problem_.inner); });
    } else if (problem_.inner * static_cast<int64_t>(sizeof(U)) >= int64_t{kCacheLine} * workers) {
      const int64_t unit = kCacheLine / sizeof(U);
      const int64_t units = (problem_.inner + unit - 1) / unit;
      run_tasks(workers, workers, [&](int, int64_t part) {
        const int64_t begin = part_begin(units, workers, part) * unit;
        const int64_t end = std::min(problem_.inner, part_begin(units, workers, part + 1) * unit);
        for (int64_t slice = 0; slice < problem_.outer; ++slice) add_rows(slice, 0, problem_.num_targets, begin, end);
      });
    } else if (problem_.inner >= 4 && outputs >= workers) {
      run_tasks(workers, workers, [&](int, int64_t part) {
        const int64_t begin = part_begin(problem_.num_targets, workers, part);
        const int64_t end = part_begin(problem_.num_targets, workers, part + 1);
        for (int64_t slice = 0; slice < problem_.outer; ++slice) add_rows(slice, begin, end, 0, problem_.inner);
      });
    } else {
      for (int64_t slice = 0; slice < problem_.outer; ++slice) add_rows(slice, 0, problem_.num_targets, 0, problem_.inner);
    }
  }

 private:
  // A whole slice of one column. Locals: a store of bytes might change anything else.
  void add_column(int64_t slice) const {
    const Index* const index = index_;
    const U* const from = src_ + slice * problem_.num_rows;
    U* const to = out_ + slice * problem_.num_targets;
    const int64_t num_rows = problem_.num_rows;
    for (int64_t row = 0; row < num_rows; ++row) add(to[index[row]], from[row]);
  }

  void add_rows(int64_t slice, int64_t first_target, int64_t last_target, int64_t first_column, int64_t last_column) const {
    const uint64_t width = static_cast<uint64_t>(last_target - first_target);
    const Alpha& alpha = problem_.alpha;
    const bool whole = width == static_cast<uint64_t>(problem_.num_targets);
    if (problem_.inner == 1 && whole && permutation_ == nullptr && alpha.is_one && problem_.ignored_target < 0) return add_column(slice);
    for (int64_t position = 0; position < problem_.num_rows; ++position) {
      const int64_t target = index_[position];
      if (static_cast<uint64_t>(target - first_target) >= width || target == problem_.ignored_target) continue;
      const int64_t row = permutation_ == nullptr ? position : permutation_[position];
      const U* const from = src_ + (slice * problem_.num_rows + row) * problem_.inner;
      U* const to = out_ + (slice * problem_.num_targets + target) * problem_.inner;
      if (alpha.is_one) {
        for (int64_t f = first_column; f < last_column; ++f) add(to[f], from[f]);
      } else {
        for (int64_t f = first_column; f < last_column; ++f) add(to[f], scale(from[f], alpha.integer));
      }
    }
  }

  const Accumulation& problem_;
  const Index* index_;           // [num_rows], in the order of the permutation where there is one
  const int64_t* permutation_;
  const U* src_;
  U* out_;
};

// torch divides integer sums by the count with rounding towards minus infinity.
template <class U, class Index>
void divide_by_counts(const Accumulation& problem, const Index* index) {
  if constexpr (!std::is_same_v<U, Bool>) {
    int64_t* counts = nullptr;
    const Workspace memory = lease([&](Layout& layout) { counts = layout.take<int64_t>(problem.num_targets); });
    std::fill_n(counts, problem.num_targets, int64_t{0});
    for (int64_t row = 0; row < problem.num_rows; ++row) counts[index[row]] += index[row] != problem.ignored_target;
    const bool is_signed = problem.dtype != Dtype::kUInt8;
    U* out = static_cast<U*>(problem.out);
    for (int64_t slice = 0; slice < problem.outer; ++slice) {
      for (int64_t target = 0; target < problem.num_targets; ++target) {
        for (int64_t f = 0; f < problem.inner; ++f, ++out) {
          if (counts[target] == 0) continue;
          const int64_t sum = is_signed ? static_cast<int64_t>(static_cast<std::make_signed_t<U>>(*out)) : static_cast<int64_t>(*out);
          const int64_t quotient = sum / counts[target];
          *out = static_cast<U>(quotient - (sum % counts[target] < 0 ? 1 : 0));
        }
      }
    }
  }
}

template <class Index>
void accumulate_indexed(const Accumulation& problem, const Index* index) {
  fill_untouched(problem);
  with_storage(problem.dtype, [&](auto storage) {
    using U = decltype(storage);
    IntegerRows<U, Index>(problem, index).run();
    if (problem.mean) divide_by_counts<U>(problem, index);
  });
}

// The target of every position of a plan.
void expand_offsets(const Accumulation& problem, int64_t* index) {
  const int64_t* const offsets = problem.plan->offsets;
  for (int64_t target = 0; target < problem.num_targets; ++target) std::fill(index + offsets[target], index + offsets[target + 1], target);
}

}  // namespace

int64_t accumulate_integers(const Accumulation& problem) {
  if (problem.plan != nullptr) {
    int64_t* index = nullptr;
    const Workspace memory = lease([&](Layout& layout) { index = layout.take<int64_t>(problem.num_rows); });
    expand_offsets(problem, index);
    accumulate_indexed(problem, index);
    return -1;
  }
  const int64_t bad = first_out_of_range(problem.index, problem.index_is_int64, problem.num_rows, 0, problem.num_targets);
  if (bad >= 0) return bad;
  if (problem.index_is_int64) {
    accumulate_indexed(problem, static_cast<const int64_t*>(problem.index));
  } else {
    accumulate_indexed(problem, static_cast<const int32_t*>(problem.index));
  }
  return -1;
}

int64_t accumulate_integers(const ElementAccumulation& problem) {
  const ElementKeys keys(problem);
  const int64_t bad = keys.first_out_of_range();
  if (bad >= 0) return bad;
  fill_untouched(problem.out, problem.self, problem.num_out * element_size(problem.dtype));
  with_storage(problem.dtype, [&](auto storage) {
    using U = decltype(storage);
    U* const out = static_cast<U*>(problem.out);
    keys.for_each<U>(0, problem.num_elements, [=](int64_t key, U value) { add(out[key], value); });
  });
  return -1;
}

}  // namespace reprocuda::cpu
