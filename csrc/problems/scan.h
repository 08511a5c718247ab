// The canonical problem of prefix sums along one dimension.
#pragma once

#include "../numerics/dtype.h"

namespace reprocuda {

// out[o, i, k] = in[o, 0, k] + ... + in[o, i, k], both contiguous and apart. Every prefix of floating-point data is its own
// exact sum, rounded once; integers wrap. `inner` counts real components: a complex dtype has two to an element.
struct Scan {
  Dtype dtype;  // any but bool
  void* out;
  const void* in;
  int64_t outer;
  int64_t length;
  int64_t inner;
};

}  // namespace reprocuda
