// Tasks of like cost over neighbouring memory.
#pragma once

#include <atomic>
#include <vector>

#include "parallel.h"

namespace reprocuda::cpu {

// As run_tasks, but every worker begins with a share of its own, the same one in every call: what is in its cache from the call
// before, or stays there for the next, is not fetched from another's. Who is done takes from the others' shares.
template <class Task>
void run_shares(int num_workers, int64_t num_tasks, Task&& task) {
  struct alignas(64) Share {
    std::atomic<int64_t> next;
  };
  const int workers = static_cast<int>(std::min<int64_t>(num_workers, num_tasks));
  std::vector<Share> shares(static_cast<size_t>(workers));
  for (int w = 0; w < workers; ++w) shares[static_cast<size_t>(w)].next = part_begin(num_tasks, workers, w);
  parallel_for(0, workers, 1, [&](int64_t first, int64_t last) {
    const RoundingScope environment(RoundingMode::kNearest);  // the thread's own may flush subnormals
    for (int64_t worker = first; worker < last; ++worker) {
      for (int k = 0; k < workers; ++k) {
        const int64_t owner = (worker + k) % workers;
        const int64_t end = part_begin(num_tasks, workers, owner + 1);
        auto& next = shares[static_cast<size_t>(owner)].next;
        for (int64_t t; (t = next.fetch_add(1, std::memory_order_relaxed)) < end;) task(static_cast<int>(worker), t);
      }
    }
  });
}

}  // namespace reprocuda::cpu
