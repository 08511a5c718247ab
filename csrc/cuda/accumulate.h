// The CUDA backend: exact reductions by index on raw device pointers. Knows nothing of torch.
//
// Guarantee: every floating-point output is the exact reduction of its contributions rounded once, so all algorithms give the
// same bits for any grid, device and schedule; integers wrap around and bools are OR-ed. All work is queued on the context's
// stream and nothing waits for it; the calls are safe inside a CUDA graph. An index out of range is printed and traps, as
// torch's device assert does, before any row it names is written.
#pragma once

#include <cstdint>

#include "../problems/accumulation.h"
#include "context.h"

namespace reprocuda::cuda {

// Solve the problem by the algorithm that its shape asks for. Throws std::runtime_error when a forced algorithm cannot
// serve the problem, when temporary memory is refused or when a launch fails.
void accumulate(const Accumulation& problem, const Context& context);
void accumulate(const ElementAccumulation& problem, const Context& context);

// The stable grouping of `num_rows` rows by target.
void build_plan(
    const void* index,        // [num_rows] int32 or int64
    bool index_is_int64,
    int64_t num_rows,
    int64_t num_targets,
    int64_t* permutation,     // [num_rows]
    int64_t* offsets,         // [num_targets + 1]
    const Context& context);

// Where every output enters: at enclosures, or at the exact sums for what these leave open.
enum class FirstStage : int8_t { kFilter, kExact };

// Hooks for tests, process-wide. A forced algorithm is used or refused, never replaced; every output enters at the stage that
// was set.
void set_forced_algorithm(Algorithm algorithm);
void set_first_stage(FirstStage stage);
bool exact_is_forced();

inline bool is_extreme(Reduction reduction) { return reduction == Reduction::kAmax || reduction == Reduction::kAmin; }
inline bool is_sum_or_mean(Reduction reduction) { return reduction == Reduction::kSum || reduction == Reduction::kMean; }

// One algorithm for one of the canonical problems. It solves correctly every problem that it serves, whether or not it is
// the fastest; `prefers` says whether it expects to be. None needs num_rows or outputs to be nonempty.
template <class Problem>
struct Launcher {
  Algorithm algorithm;
  bool (*serves)(const Problem& problem);
  bool (*prefers)(const Problem& problem);
  void (*accumulate)(const Problem& problem, const Context& context);
};

// Each is instantiated for both problems where its kernels are compiled.
template <class Problem>
Launcher<Problem> sorted_launcher();  // stable grouping by target, one reduction a segment: serves everything
template <class Problem>
Launcher<Problem> small_launcher();  // one kernel for small inputs
template <class Problem>
Launcher<Problem> bins_launcher();  // private accumulators for every output
template <class Problem>
Launcher<Problem> fixed_point_launcher();  // integer fixed point by atomics, no sort
template <class Problem>
Launcher<Problem> words_launcher();  // by one atomic a contribution: extremes, and products of integers

}  // namespace reprocuda::cuda
