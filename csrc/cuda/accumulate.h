// The CUDA backend: exact accumulation by index on raw device pointers. Knows nothing of torch.
//
// Guarantee: every floating-point output is the exact sum of its contributions rounded once, so all algorithms give the same
// bits for any grid, device and schedule; integers wrap around and bools are OR-ed. All work is queued on the context's
// stream and nothing waits for it; the calls are safe inside a CUDA graph. An index out of range is printed and traps, as
// torch's device assert does, before any row it names is written.
#pragma once

#include <cstdint>

#include "../problem.h"
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

// Hooks for tests, process-wide. A forced algorithm is used or refused, never replaced; force_exact sends every output
// through the exact fallback.
void set_forced_algorithm(Algorithm algorithm);
void set_force_exact(bool force);
bool exact_is_forced();

// The launchers behind accumulate. Each serves the problems for which its predicate holds, and all of those correctly,
// whether or not it is the fastest; `prefers` says whether it expects to be. None needs num_rows or outputs to be nonempty.
namespace sorted {  // stable grouping by target, one reduction a segment: serves everything
void accumulate(const Accumulation& problem, const Context& context);
void accumulate(const ElementAccumulation& problem, const Context& context);
}  // namespace sorted

namespace small {  // one kernel for small inputs
bool serves(const Accumulation& problem, const Context& context);
bool serves(const ElementAccumulation& problem, const Context& context);
bool prefers(const Accumulation& problem, const Context& context);
bool prefers(const ElementAccumulation& problem, const Context& context);
void accumulate(const Accumulation& problem, const Context& context);
void accumulate(const ElementAccumulation& problem, const Context& context);
}  // namespace small

namespace bins {  // private accumulators for every output
bool serves(const Accumulation& problem, const Context& context);
bool serves(const ElementAccumulation& problem, const Context& context);
bool prefers(const Accumulation& problem, const Context& context);
bool prefers(const ElementAccumulation& problem, const Context& context);
void accumulate(const Accumulation& problem, const Context& context);
void accumulate(const ElementAccumulation& problem, const Context& context);
}  // namespace bins

namespace fixed_point {  // integer fixed point by atomics, no sort
bool serves(const Accumulation& problem, const Context& context);
bool serves(const ElementAccumulation& problem, const Context& context);
bool prefers(const Accumulation& problem, const Context& context);
bool prefers(const ElementAccumulation& problem, const Context& context);
void accumulate(const Accumulation& problem, const Context& context);
void accumulate(const ElementAccumulation& problem, const Context& context);
}  // namespace fixed_point

}  // namespace reprocuda::cuda
