// exp, log and sqrt of numerics/elementary.h on NumPy arrays; results as bits.
#include "numerics.h"

#include "numerics/elementary.h"
#include "numerics/rounding.h"

namespace reprocuda::testing {
namespace {

template <double (*function)(double)>
Words map(Doubles values, const std::string& dtype) {
  Words out(values.size());
  with_dtype(dtype, [&](auto tag) {
    for (py::ssize_t i = 0; i < values.size(); ++i) {
      out.mutable_data()[i] = bits_of(round_to<typename decltype(tag)::type>(function(values.data()[i])));
    }
  });
  return out;
}

}  // namespace

void bind_elementary(py::module_& module) {
  module.def("exp", &map<exp_of>, py::arg("values"), py::arg("dtype") = "float64");
  module.def("log", &map<log_of>, py::arg("values"), py::arg("dtype") = "float64");
  module.def("sqrt", &map<sqrt_of>, py::arg("values"), py::arg("dtype") = "float64");
}

}  // namespace reprocuda::testing
