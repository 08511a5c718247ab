// From a run-time dtype to a compile-time element type: the one place where that is done.
//
// Signed and unsigned integers of one width share an element type, since sums modulo 2^n do not see the sign. bool is its own
// type because its sum is OR.
#pragma once

#include <cstdint>
#include <stdexcept>

#include "../kernels/element.cuh"
#include "../numerics/dtype.h"

namespace reprocuda::cuda {

// Calls f.operator()<T>() for the element type of `dtype`.
template <class F>
decltype(auto) dispatch_float(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kFloat16: return f.template operator()<Half>();
    case Dtype::kBFloat16: return f.template operator()<BFloat16>();
    case Dtype::kFloat32: return f.template operator()<float>();
    case Dtype::kFloat64: return f.template operator()<double>();
    default: throw std::runtime_error("reprocuda: a floating-point dtype was expected");
  }
}

template <class F>
decltype(auto) dispatch_integer(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8: return f.template operator()<uint8_t>();
    case Dtype::kInt16: return f.template operator()<uint16_t>();
    case Dtype::kInt32: return f.template operator()<uint32_t>();
    case Dtype::kInt64: return f.template operator()<uint64_t>();
    case Dtype::kBool: return f.template operator()<Boolean>();
    default: throw std::runtime_error("reprocuda: an integer dtype was expected");
  }
}

template <class F>
decltype(auto) dispatch(Dtype dtype, F&& f) {
  return is_floating_point(dtype) ? dispatch_float(dtype, f) : dispatch_integer(dtype, f);
}

}  // namespace reprocuda::cuda
