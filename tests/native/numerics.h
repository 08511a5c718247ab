// What the parts of the reprocuda_numerics module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cfenv>
#include <stdexcept>
#include <string>
#include <vector>

#include "numerics/half.h"

#ifdef __SSE2__
#include <xmmintrin.h>
#endif

namespace reprocuda::testing {

namespace py = pybind11;
using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Ints = py::array_t<int64_t, py::array::c_style | py::array::forcecast>;
using Words = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;
using Flags = py::array_t<bool, py::array::c_style | py::array::forcecast>;

// Runs a scope in another rounding mode; "flush" also treats subnormals as zero.
class FloatingPointMode {
 public:
  explicit FloatingPointMode(const std::string& name) {
    std::fegetenv(&saved_);
    if (name == "down") std::fesetround(FE_DOWNWARD);
    else if (name == "up") std::fesetround(FE_UPWARD);
    else if (name == "zero") std::fesetround(FE_TOWARDZERO);
#ifdef __SSE2__
    else if (name == "flush") _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
    else if (name != "nearest") throw std::invalid_argument("unknown mode " + name);
  }
  ~FloatingPointMode() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
};

template <class T>
struct Tag {
  using type = T;
};

template <class F>
auto with_dtype(const std::string& name, F&& f) {
  if (name == "float16") return f(Tag<Half>());
  if (name == "bfloat16") return f(Tag<BFloat16>());
  if (name == "float32") return f(Tag<float>());
  if (name == "float64") return f(Tag<double>());
  throw std::invalid_argument("unknown dtype " + name);
}

// Rows of `values` [rows, terms] are cut into parts of `chunk` terms; the partial results merge from the last part to the
// first if `reversed`, else in order.
template <class Part, class Add>
Part reduce_in_parts(int64_t terms, int64_t chunk, bool reversed, Add&& add) {
  std::vector<Part> parts;
  for (int64_t begin = 0; begin < terms; begin += chunk) {
    parts.push_back(Part::empty());
    for (int64_t i = begin; i < std::min(terms, begin + chunk); ++i) add(parts.back(), i);
  }
  if (reversed) std::reverse(parts.begin(), parts.end());
  Part total = Part::empty();
  for (const Part& part : parts) total.merge(part);
  return total;
}

void bind_elementary(py::module_& module);  // numerics_elementary.cpp
void bind_products(py::module_& module);  // numerics_products.cpp

}  // namespace reprocuda::testing
