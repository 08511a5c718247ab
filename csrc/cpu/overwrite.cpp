#include "overwrite.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "index_checks.h"
#include "parallel.h"
#include "workspace.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kBytesPerWorker = 1 << 17;  // below this waking a second thread costs more than it saves

struct alignas(16) Bytes16 {
  uint64_t halves[2];
};

// Calls function(U{}) with a type of that many bytes.
template <class Function>
void with_element(int bytes, Function&& function) {
  switch (bytes) {
    case 1: return function(uint8_t{});
    case 2: return function(uint16_t{});
    case 4: return function(uint32_t{});
    case 8: return function(uint64_t{});
    default: return function(Bytes16{});
  }
}

// The last two dimensions walked by plain loops, those before them as an odometer turns.
template <class Visit>
void for_each_plane(const Overwrite& p, Visit&& visit) {
  const int outer = p.ndim - 2;
  int64_t at[kMaxDims] = {};
  int64_t src = 0;
  int64_t index = 0;
  int64_t out = 0;
  for (;;) {
    visit(src, index, out);
    int d = outer - 1;
    for (; d >= 0; --d) {
      const bool turns_over = at[d] + 1 == p.sizes[d];
      const int64_t steps = turns_over ? -at[d] : 1;
      at[d] += steps;
      src += steps * p.src_strides[d];
      index += steps * p.index_strides[d];
      out += d == p.dim ? 0 : steps * p.out_strides[d];
      if (!turns_over) break;
    }
    if (d < 0) return;
  }
}

// One worker's part of a problem, of at least two dimensions: those of its elements whose target lies in
// [first_target, first_target + num_targets).
template <class U, class Index, bool kAllTargets>
class Writer {
 public:
  Writer(const Overwrite& problem, int64_t first_target, int64_t num_targets)
      : p_(problem), first_(first_target), width_(num_targets), wrap_(problem.wraps ? problem.dim_size : 0) {}

  void run() const {
    const int a = p_.ndim - 2;
    const int b = p_.ndim - 1;
    const U* const src = static_cast<const U*>(p_.src);
    const Index* const index = static_cast<const Index*>(p_.index);
    U* const out = static_cast<U*>(p_.out);
    const int64_t out_step = a == p_.dim ? 0 : p_.out_strides[a];
    const bool is_row = b != p_.dim && p_.index_strides[b] == 0;
    for_each_plane(p_, [&](int64_t s, int64_t i, int64_t o) {
      const auto from = [&](int64_t n) { return src + s + n * p_.src_strides[a]; };
      const auto targets = [&](int64_t n) { return index + i + n * p_.index_strides[a]; };
      if (is_row) {
        for_each_mine(p_.sizes[a], [&](int64_t n) { return target_of(*targets(n)); },
                      [&](int64_t n) { write_row(from(n), target_of(*targets(n)), out + o + n * out_step); });
      } else {
        for (int64_t n = 0; n < p_.sizes[a]; ++n) write_run(from(n), targets(n), out + o + n * out_step);
      }
    });
  }

  int64_t target_of(int64_t index) const { return index + ((index >> 63) & wrap_); }

  void write_row(const U* from, int64_t target, U* out) const {
    const int b = p_.ndim - 1;
    const int64_t size = p_.sizes[b];
    const int64_t from_step = p_.src_strides[b];
    const int64_t step = p_.out_strides[b];
    U* const to = out + target * p_.out_strides[p_.dim];
    if (step == 1 && from_step == 1) {
      std::memcpy(to, from, size * sizeof(U));
    } else if (step == 1 && from_step == 0) {
      std::fill_n(to, size, *from);
    } else {
      for (int64_t f = 0; f < size; ++f) to[f * step] = from[f * from_step];
    }
  }

 private:
  // Visits, in order, the positions whose target is ours. They are listed first, without a branch on whose they are, which
  // would be guessed wrong every other time.
  template <class Target, class Visit>
  void for_each_mine(int64_t size, Target&& target, Visit&& visit) const {
    if constexpr (kAllTargets) {
      for (int64_t n = 0; n < size; ++n) visit(n);
    } else {
      constexpr int64_t kListed = 1024;
      const int64_t first = first_;
      const int64_t width = width_;
      int32_t mine[kListed];
      for (int64_t begin = 0; begin < size; begin += kListed) {
        const int64_t end = std::min(begin + kListed, size);
        int64_t count = 0;
        for (int64_t n = begin; n < end; ++n) {
          mine[count] = static_cast<int32_t>(n - begin);
          const int64_t offset = target(n) - first;
          // 0 <= offset < width; a comparison becomes a branch
          count += static_cast<uint64_t>(~offset & (offset - width)) >> 63;
        }
        for (int64_t at = 0; at < count; ++at) visit(begin + mine[at]);
      }
    }
  }

  void write_run(const U* from, const Index* index, U* out) const {
    constexpr std::integral_constant<int64_t, 0> kNone;
    constexpr std::integral_constant<int64_t, 1> kOne;
    const int b = p_.ndim - 1;
    const int64_t from_step = p_.src_strides[b];
    const int64_t index_step = p_.index_strides[b];
    const int64_t step = b == p_.dim ? 0 : p_.out_strides[b];
    const int64_t target_step = p_.out_strides[p_.dim];
    if (index_step == 1 && step == 0 && target_step == 1 && from_step == 1) {
      if (wrap_ == 0) return write_spaced(from, index, out, kOne, kOne, kNone, kOne, kNone);
      return write_spaced(from, index, out, kOne, kOne, kNone, kOne, wrap_);
    }
    if (index_step == 1 && step == 1 && from_step == 1) {
      return write_spaced(from, index, out, kOne, kOne, kOne, target_step, wrap_);
    }
    write_spaced(from, index, out, from_step, index_step, step, target_step, wrap_);
  }

  template <class FromStep, class IndexStep, class Step, class TargetStep, class Wrap>
  void write_spaced(const U* from, const Index* index, U* out, FromStep from_step, IndexStep index_step, Step step,
                    TargetStep target_step, Wrap wrap) const {
    const auto target = [=](int64_t f) {
      const int64_t given = index[f * index_step];
      return given + ((given >> 63) & wrap);
    };
    for_each_mine(p_.sizes[p_.ndim - 1], target,
                  [=](int64_t f) { out[f * step + target(f) * target_step] = from[f * from_step]; });
  }

  const Overwrite& p_;
  int64_t first_;
  int64_t width_;
  int64_t wrap_;
};

// Calls function(U{}, Index{}) with types as wide as elements and indices.
template <class Function>
void with_types(const Overwrite& problem, Function&& function) {
  with_element(problem.element_bytes, [&](auto element) {
    if (problem.index_is_int64) return function(element, int64_t{});
    return function(element, int32_t{});
  });
}

void write(const Overwrite& problem, int64_t first_target, int64_t num_targets) {
  with_types(problem, [&]<class U, class Index>(U, Index) {
    if (first_target == 0 && num_targets == problem.dim_size) {
      Writer<U, Index, true>(problem, 0, num_targets).run();
    } else {
      Writer<U, Index, false>(problem, first_target, num_targets).run();
    }
  });
}

// Whether rows are long, and for each target so many, that to find its last row costs less than to copy them all.
bool has_many_long_rows(const Overwrite& problem) {
  constexpr int64_t kLongRow = 32;  // bytes
  constexpr int64_t kMostRows = int64_t{1} << 31;
  const bool are_rows = problem.ndim == 2 && problem.dim == 0 && problem.index_strides[1] == 0;
  return are_rows && problem.sizes[0] / 2 >= problem.dim_size && problem.sizes[0] < kMostRows &&
         problem.sizes[1] * problem.element_bytes >= kLongRow;
}

// Each worker notes the last of some rows for every target; of the workers the last that has one decides. Then one row a target
// is copied.
void write_last_rows(const Overwrite& problem, int most_workers) {
  const int64_t num_rows = problem.sizes[0];
  const int64_t num_targets = problem.dim_size;
  const int64_t workers = std::min<int64_t>(most_workers, num_rows / num_targets);  // 4 bytes a row altogether
  const Workspace memory(static_cast<size_t>(workers * num_targets) * sizeof(int32_t));
  int32_t* const last = reinterpret_cast<int32_t*>(memory.data());  // [workers, num_targets]
  with_types(problem, [&]<class U, class Index>(U, Index) {
    const Writer<U, Index, true> writer(problem, 0, num_targets);
    const Index* const index = static_cast<const Index*>(problem.index);
    run_tasks(static_cast<int>(workers), workers, [&](int, int64_t part) {
      int32_t* const mine = last + part * num_targets;
      std::fill_n(mine, num_targets, -1);
      const int64_t end = part_begin(num_rows, workers, part + 1);
      for (int64_t row = part_begin(num_rows, workers, part); row < end; ++row) {
        mine[writer.target_of(index[row * problem.index_strides[0]])] = static_cast<int32_t>(row);
      }
    });
    run_tasks(static_cast<int>(workers), workers, [&](int, int64_t part) {
      const int64_t end = part_begin(num_targets, workers, part + 1);
      for (int64_t target = part_begin(num_targets, workers, part); target < end; ++target) {
        int32_t row = -1;
        for (int64_t worker = workers - 1; worker >= 0 && row < 0; --worker) row = last[worker * num_targets + target];
        if (row < 0) continue;
        const U* const from = static_cast<const U*>(problem.src) + row * problem.src_strides[0];
        writer.write_row(from, target, static_cast<U*>(problem.out));
      }
    });
  });
}

// The part of a problem with coordinates [begin, end) along dimension d, which is not `dim`.
Overwrite slice(const Overwrite& problem, int d, int64_t begin, int64_t end) {
  Overwrite part = problem;
  part.sizes[d] = end - begin;
  part.src = static_cast<const char*>(problem.src) + begin * problem.src_strides[d] * problem.element_bytes;
  part.out = static_cast<char*>(problem.out) + begin * problem.out_strides[d] * problem.element_bytes;
  part.index = static_cast<const char*>(problem.index) + begin * problem.index_strides[d] * (problem.index_is_int64 ? 8 : 4);
  return part;
}

// The dimension to cut among workers so that each keeps long stretches of memory to itself, or -1.
int dimension_to_cut(const Overwrite& problem, int workers) {
  constexpr int64_t kStretch = 512;  // bytes
  for (int d = 0; d < problem.ndim; ++d) {
    if (d == problem.dim || problem.sizes[d] < workers) continue;
    if (d < problem.dim || problem.sizes[d] * problem.out_strides[d] * problem.element_bytes >= kStretch * workers) return d;
  }
  return -1;
}

// Every worker then looks at every index, and fetches most of the source. That pays only where the targets do not fit the
// caches, so that each worker waits for its part of them.
bool pays_to_cut_targets(const Overwrite& problem) {
  constexpr int64_t kCached = int64_t{8} << 20;
  int64_t row = problem.element_bytes;
  for (int d = problem.dim + 1; d < problem.ndim && problem.index_strides[d] == 0; ++d) row *= problem.sizes[d];
  return problem.dim_size * row > kCached;
}

// At least two dimensions, for the plain loops.
Overwrite with_two_dimensions(const Overwrite& problem) {
  if (problem.ndim >= 2) return problem;
  Overwrite wide = problem;
  wide.ndim = 2;
  wide.dim = 1;
  wide.sizes[0] = 1;
  wide.sizes[1] = problem.sizes[0];
  wide.src_strides[1] = problem.src_strides[0];
  wide.index_strides[1] = problem.index_strides[0];
  wide.out_strides[1] = problem.out_strides[0];
  return wide;
}

// The index alone: one number for all elements that share it.
Overwrite index_only(const Overwrite& problem) {
  Overwrite bare;
  bare.index = problem.index;
  bare.index_is_int64 = problem.index_is_int64;
  bare.dim_size = problem.dim_size;
  bare.dim = -1;
  bare.num_elements = 1;
  for (int d = 0; d < problem.ndim; ++d) {
    const int64_t size = problem.sizes[d];
    const int64_t stride = problem.index_strides[d];
    if (stride == 0 || size == 1) continue;
    const int last = bare.ndim - 1;
    if (last >= 0 && bare.index_strides[last] == size * stride) {
      bare.sizes[last] *= size;
      bare.index_strides[last] = stride;
    } else {
      bare.sizes[bare.ndim] = size;
      bare.index_strides[bare.ndim++] = stride;
    }
    bare.num_elements *= size;
  }
  if (bare.ndim == 0) {
    bare.ndim = 1;
    bare.sizes[0] = bare.index_strides[0] = 1;
  }
  return bare;
}

template <class Index>
bool all_in_range(const Overwrite& bare, int64_t lower) {
  std::atomic<bool> good{true};
  const int workers = workers_for(bare.num_elements * 8, kBytesPerWorker);
  run_tasks(workers, workers, [&](int, int64_t part) {
    const int64_t begin = part_begin(bare.sizes[0], workers, part);
    const int64_t end = part_begin(bare.sizes[0], workers, part + 1);
    if (begin == end) return;
    const Overwrite mine = with_two_dimensions(slice(bare, 0, begin, end));
    const int a = mine.ndim - 2;
    const int64_t size = mine.sizes[a + 1];
    const int64_t step = mine.index_strides[a + 1];
    OutsideRange outside(lower, bare.dim_size);
    for_each_plane(mine, [&](int64_t, int64_t start, int64_t) {
      for (int64_t n = 0; n < mine.sizes[a]; ++n) {
        const Index* const run = static_cast<const Index*>(mine.index) + start + n * mine.index_strides[a];
        for (int64_t f = 0; f < size; ++f) outside.look_at(run[f * step]);
      }
    });
    if (outside.any()) good.store(false, std::memory_order_relaxed);
  });
  return good.load();
}

bool indices_are_in_range(const Overwrite& problem) {
  const int64_t lower = problem.wraps ? -problem.dim_size : 0;
  const Overwrite bare = index_only(problem);
  if (bare.ndim == 1 && bare.index_strides[0] == 1) {
    return first_out_of_range(bare.index, bare.index_is_int64, bare.num_elements, lower, bare.dim_size) < 0;
  }
  return bare.index_is_int64 ? all_in_range<int64_t>(bare, lower) : all_in_range<int32_t>(bare, lower);
}

}  // namespace

bool overwrite(const Overwrite& original) {
  if (original.num_elements == 0) return true;
  const Overwrite problem = with_two_dimensions(original);
  if (!indices_are_in_range(problem)) return false;
  const int workers = workers_for(problem.num_elements * std::max(problem.element_bytes, 4), kBytesPerWorker);
  if (has_many_long_rows(problem)) {
    write_last_rows(problem, workers);
    return true;
  }
  if (workers == 1) {
    write(problem, 0, problem.dim_size);
    return true;
  }
  const int cut = dimension_to_cut(problem, workers);
  if (cut < 0 && !pays_to_cut_targets(problem)) {
    write(problem, 0, problem.dim_size);
    return true;
  }
  const int64_t size = cut >= 0 ? problem.sizes[cut] : problem.dim_size;
  const int64_t tasks = cut >= 0 && cut < problem.dim ? std::min<int64_t>(size, int64_t{8} * workers) : workers;
  run_tasks(workers, tasks, [&](int, int64_t task) {
    const int64_t begin = part_begin(size, tasks, task);
    const int64_t end = part_begin(size, tasks, task + 1);
    if (cut >= 0) {
      write(slice(problem, cut, begin, end), 0, problem.dim_size);
    } else if (begin < end) {
      write(problem, begin, end - begin);
    }
  });
  return true;
}

}  // namespace reprocuda::cpu
