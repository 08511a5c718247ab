// Elements with an index of their own by integer atomics.
#include "fixed_point.h"

namespace reprocuda::cuda::fixed_point {

void accumulate(const ElementAccumulation& problem, const Context& context) { run(problem, context); }

}  // namespace reprocuda::cuda::fixed_point
