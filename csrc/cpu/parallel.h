// How the CPU backend runs on several threads. The library defines these two functions over torch's thread pool, so that
// torch.set_num_threads() governs us too; a stand-alone program defines them over std::thread.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>

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

}  // namespace reprocuda::cpu
