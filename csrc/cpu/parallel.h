// How the CPU backend runs on several threads. The library defines these two functions over torch's thread pool, so that
// torch.set_num_threads() governs us too; a stand-alone program defines them over std::thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "rounding_mode.h"

namespace reprocuda::cpu {

using RangeFunction = void (*)(int64_t begin, int64_t end, void* context);

// Call function(b, e, context) on disjoint sub-ranges that cover [begin, end), each of at least `grain` positions but the
// last, and return when all are done. Inside a parallel region it runs inline. `function` must not throw.
void run_parallel(int64_t begin, int64_t end, int64_t grain, RangeFunction function, void* context);

// How many threads run_parallel would use here; at least 1, and 1 inside a parallel region.
int num_threads();

template <class Function>
void parallel_for(int64_t begin, int64_t end, int64_t grain, Function&& function) {
  using Callable = std::remove_reference_t<Function>;
  run_parallel(
      begin, end, grain,
      [](int64_t first, int64_t last, void* context) { (*static_cast<Callable*>(context))(first, last); },
      const_cast<void*>(static_cast<const void*>(std::addressof(function))));
}

// How many workers a job of `work` units deserves when one worker should have at least `grain` of them.
inline int workers_for(int64_t work, int64_t grain) {
  return static_cast<int>(std::clamp<int64_t>(work / grain, 1, num_threads()));
}

// Call task(worker, t) for every t in [0, num_tasks); no two calls with the same worker run at once. Workers take tasks as
// they come: which one runs which task is left to chance, and no result depends on it.
template <class Task>
void run_tasks(int num_workers, int64_t num_tasks, Task&& task) {
  std::atomic<int64_t> next{0};
  parallel_for(0, std::min<int64_t>(num_workers, num_tasks), 1, [&](int64_t first, int64_t last) {
    const RoundingScope environment(RoundingMode::kNearest);  // the thread's own may flush subnormals
    for (int64_t worker = first; worker < last; ++worker) {
      for (int64_t t; (t = next.fetch_add(1, std::memory_order_relaxed)) < num_tasks;) task(static_cast<int>(worker), t);
    }
  });
}

// An even cut of `total` into `parts`.
inline int64_t part_begin(int64_t total, int64_t parts, int64_t part) {
  return total / parts * part + std::min(total % parts, part);
}

}  // namespace reprocuda::cpu
