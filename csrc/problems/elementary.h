// The canonical problem of exp, log and sqrt: one function of every element.
#pragma once

#include "../numerics/dtype.h"
#include "../numerics/elementary.h"

namespace reprocuda {

enum class Elementary : int8_t { kExp, kLog, kSqrt };

template <Elementary kFunction>
REPROCUDA_HD double elementary(double x) {
  if constexpr (kFunction == Elementary::kExp) return exp_of(x);
  if constexpr (kFunction == Elementary::kLog) return log_of(x);
  return sqrt_of(x);
}

// Calls run<kFunction>().
template <class Run>
decltype(auto) dispatch_elementary(Elementary function, Run&& run) {
  switch (function) {
    case Elementary::kExp: return run.template operator()<Elementary::kExp>();
    case Elementary::kLog: return run.template operator()<Elementary::kLog>();
    default: return run.template operator()<Elementary::kSqrt>();
  }
}

// out[i] = function(in[i]), both contiguous; of a float dtype. `out` may be `in`.
struct ElementaryMap {
  Elementary function = Elementary::kExp;
  Dtype dtype = Dtype::kFloat32;
  void* out = nullptr;
  const void* in = nullptr;
  int64_t count = 0;
};

}  // namespace reprocuda
