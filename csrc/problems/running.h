// The canonical problem of running products and running log-sum-exps: cumprod and logcumsumexp.
#pragma once

#include "../numerics/dtype.h"

namespace reprocuda {

enum class Running : int8_t { kProduct, kLogSumExp };

// out[o, i, k] = in[o, 0, k] combined with ... in[o, i, k], in the order of numerics/running.h. Both contiguous; `out` may be
// `in`.
struct RunningScan {
  Running operation = Running::kProduct;
  Dtype dtype = Dtype::kFloat32;  // of a real component; any but bool, and of kLogSumExp a float
  bool is_complex = false;        // kProduct only
  void* out = nullptr;
  const void* in = nullptr;
  int64_t outer = 1;
  int64_t length = 0;
  int64_t inner = 1;  // in elements
};

}  // namespace reprocuda
