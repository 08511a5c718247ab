// Elements with an index of their own by integer atomics.
#include "fixed_point.h"

namespace reprocuda::cuda {

template Launcher<ElementAccumulation> fixed_point_launcher();

}  // namespace reprocuda::cuda
