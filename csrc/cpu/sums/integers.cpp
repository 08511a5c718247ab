#include "integers.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "../index_checks.h"
#include "../parallel.h"
#include "../workspace.h"
#include "element_keys.h"
#include "outputs.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 16;

// A bool in torch's storage; anything but 0 is true.
struct Bool {
  uint8_t bits;
};

// How one integer joins the result: the types are signed where the dtype is, and wrap around.
struct Add {
  static void combine(Bool& result, Bool x) { result.bits = (result.bits != 0) | (x.bits != 0); }
  template <class X>
  static void combine(X& result, X x) {
    using U = std::make_unsigned_t<X>;
    result = static_cast<X>(static_cast<U>(static_cast<U>(result) + static_cast<U>(x)));
  }
  template <class X>
  static X identity() { return X{}; }
};

struct Multiply {
  static void combine(Bool& result, Bool x) { result.bits = (result.bits != 0) & (x.bits != 0); }
  template <class X>
  static void combine(X& result, X x) {
    result = static_cast<X>(static_cast<uint64_t>(result) * static_cast<uint64_t>(x));
  }
  template <class X>
  static X identity() { return X{1}; }
};

struct TakeLargest {
  static void combine(Bool& result, Bool x) { Add::combine(result, x); }
  template <class X>
  static void combine(X& result, X x) { result = std::max(result, x); }
  template <class X>
  static X identity() {
    if constexpr (std::is_same_v<X, Bool>) {
      return Bool{0};
    } else {
      return std::numeric_limits<X>::min();
    }
  }
};

struct TakeSmallest {
  static void combine(Bool& result, Bool x) { Multiply::combine(result, x); }
  template <class X>
  static void combine(X& result, X x) { result = std::min(result, x); }
  template <class X>
  static X identity() {
    if constexpr (std::is_same_v<X, Bool>) {
      return Bool{1};
    } else {
      return std::numeric_limits<X>::max();
    }
  }
};

inline Bool scale(Bool x, int64_t alpha) { return {static_cast<uint8_t>(x.bits != 0 && alpha != 0)}; }
template <class X>
inline X scale(X x, int64_t alpha) {
  Multiply::combine(x, static_cast<X>(alpha));
  return x;
}

// Calls function(X{}) with the type that holds a dtype.
template <class Function>
void with_storage(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kBool: return function(Bool{});
    case Dtype::kUInt8: return function(uint8_t{});
    case Dtype::kInt8: return function(int8_t{});
    case Dtype::kInt16: return function(int16_t{});
    case Dtype::kInt32: return function(int32_t{});
    default: return function(int64_t{});
  }
}

template <class Function>
void with_operation(Reduction reduction, Function&& function) {
  switch (reduction) {
    case Reduction::kProd: return function(Multiply{});
    case Reduction::kAmax: return function(TakeLargest{});
    case Reduction::kAmin: return function(TakeSmallest{});
    default: return function(Add{});
  }
}

template <class U, class Operation, class Index>
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
      run_tasks(workers, problem_.outer, [&](int, int64_t slice) {
        add_rows(slice, 0, problem_.num_targets, 0, problem_.inner);
      });
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
  void combine_column(int64_t slice) const {
    const Index* const index = index_;
    const U* const from = src_ + slice * problem_.num_rows;
    U* const to = out_ + slice * problem_.num_targets;
    const int64_t num_rows = problem_.num_rows;
    for (int64_t row = 0; row < num_rows; ++row) Operation::combine(to[index[row]], from[row]);
  }

  void add_rows(int64_t slice, int64_t first_target, int64_t last_target, int64_t first_column, int64_t last_column) const {
    const auto each_row = [&](auto&& visit) {
      for_each_row(slice, first_target, last_target, visit);
    };
    if (!problem_.include_self) {
      each_row([&](U* to, const U*) { std::fill(to + first_column, to + last_column, Operation::template identity<U>()); });
    }
    const Alpha& alpha = problem_.alpha;
    const bool whole = first_target == 0 && last_target == problem_.num_targets;
    if (problem_.inner == 1 && whole && permutation_ == nullptr && alpha.is_one && problem_.ignored_target < 0) {
      return combine_column(slice);
    }
    if (alpha.is_one) {
      each_row([&](U* to, const U* from) {
        for (int64_t f = first_column; f < last_column; ++f) Operation::combine(to[f], from[f]);
      });
    } else {
      each_row([&](U* to, const U* from) {
        for (int64_t f = first_column; f < last_column; ++f) Operation::combine(to[f], scale(from[f], alpha.integer));
      });
    }
  }

  // Calls visit(row of the result, row of the source).
  template <class Visit>
  void for_each_row(int64_t slice, int64_t first_target, int64_t last_target, Visit&& visit) const {
    const uint64_t width = static_cast<uint64_t>(last_target - first_target);
    for (int64_t position = 0; position < problem_.num_rows; ++position) {
      const int64_t target = index_[position];
      if (static_cast<uint64_t>(target - first_target) >= width || target == problem_.ignored_target) continue;
      const int64_t row = permutation_ == nullptr ? position : permutation_[position];
      visit(out_ + (slice * problem_.num_targets + target) * problem_.inner,
            src_ + (slice * problem_.num_rows + row) * problem_.inner);
    }
  }

  const Accumulation& problem_;
  const Index* index_;           // [num_rows], in the order of the permutation where there is one
  const int64_t* permutation_;
  const U* src_;
  U* out_;
};

// torch divides integer sums by the count with rounding towards minus infinity.
template <class U>
inline void divide_down(U& sum, int64_t count) {
  if constexpr (!std::is_same_v<U, Bool>) {
    const int64_t wide = static_cast<int64_t>(sum);
    sum = static_cast<U>(wide / count - (wide % count < 0 ? 1 : 0));
  }
}

// How often each of `num_targets` is named, `self` counted with those that are; `each(visit)` calls visit(target).
template <class Each>
void count_contributions(int64_t* counts, int64_t num_targets, bool count_self, Each&& each) {
  std::fill_n(counts, num_targets, int64_t{0});
  each([&](int64_t target) { ++counts[target]; });
  if (!count_self) return;
  for (int64_t target = 0; target < num_targets; ++target) counts[target] += counts[target] > 0;
}

template <class U, class Index>
void divide_by_counts(const Accumulation& problem, const Index* index) {
  int64_t* counts = nullptr;
  const Workspace memory = lease([&](Layout& layout) { counts = layout.take<int64_t>(problem.num_targets); });
  count_contributions(counts, problem.num_targets, problem.start() != nullptr, [&](auto&& visit) {
    for (int64_t row = 0; row < problem.num_rows; ++row) {
      if (index[row] != problem.ignored_target) visit(index[row]);
    }
  });
  U* out = static_cast<U*>(problem.out);
  for (int64_t slice = 0; slice < problem.outer; ++slice) {
    for (int64_t target = 0; target < problem.num_targets; ++target) {
      for (int64_t f = 0; f < problem.inner; ++f, ++out) {
        if (counts[target] > 1) divide_down(*out, counts[target]);
      }
    }
  }
}

template <class Index>
void accumulate_indexed(const Accumulation& problem, const Index* index) {
  fill_untouched(problem);
  with_storage(problem.dtype, [&](auto storage) {
    using U = decltype(storage);
    with_operation(problem.reduction, [&](auto operation) {
      IntegerRows<U, decltype(operation), Index>(problem, index).run();
    });
    if (problem.mean()) divide_by_counts<U>(problem, index);
  });
}

// The target of every position of a plan.
void expand_offsets(const Accumulation& problem, int64_t* index) {
  const int64_t* const offsets = problem.plan->offsets;
  for (int64_t target = 0; target < problem.num_targets; ++target) {
    std::fill(index + offsets[target], index + offsets[target + 1], target);
  }
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
    const auto each_element = [&](auto&& visit) { keys.for_each<U>(0, problem.num_elements, visit); };
    with_operation(problem.reduction, [&](auto operation) {
      using Operation = decltype(operation);
      if (!problem.include_self) each_element([&](int64_t key, U) { out[key] = Operation::template identity<U>(); });
      each_element([&](int64_t key, U value) { Operation::combine(out[key], value); });
    });
    if (!problem.mean()) return;
    int64_t* counts = nullptr;
    const Workspace memory = lease([&](Layout& layout) { counts = layout.take<int64_t>(problem.num_out); });
    count_contributions(counts, problem.num_out, problem.start() != nullptr,
                        [&](auto&& visit) { each_element([&](int64_t key, U) { visit(key); }); });
    for (int64_t at = 0; at < problem.num_out; ++at) {
      if (counts[at] > 1) divide_down(out[at], counts[at]);
    }
  });
  return -1;
}

}  // namespace reprocuda::cpu
