// The canonical problem of exp and log: one function of every element.
#pragma once

#include "problem.h"

namespace reprocuda {

enum class Elementary : int8_t { kExp, kLog };

// out[i] = function(in[i]), both contiguous; of a float dtype. `out` may be `in`.
struct ElementaryMap {
  Elementary function = Elementary::kExp;
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;
  const void* in = nullptr;
  int64_t count = 0;
};

}  // namespace reprocuda
