// The dtypes of real numbers that operators are computed in, whatever torch has a complex number be.
#pragma once

#include <cstdint>

namespace reprocuda {

enum class Dtype : int8_t {
  kUInt8,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kBool,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

inline bool is_floating_point(Dtype dtype) { return dtype >= Dtype::kFloat16; }

inline int64_t element_size(Dtype dtype) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8:
    case Dtype::kBool: return 1;
    case Dtype::kInt16:
    case Dtype::kFloat16:
    case Dtype::kBFloat16: return 2;
    case Dtype::kInt32:
    case Dtype::kFloat32: return 4;
    case Dtype::kInt64:
    case Dtype::kFloat64: return 8;
  }
  return 0;
}

}  // namespace reprocuda
