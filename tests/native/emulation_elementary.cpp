// exp, log and sqrt on the emulated device.
#include "cuda/elementary.h"
#include "emulated_device.h"
#include "emulation.h"

namespace reprocuda::testing {
namespace {

// Of an array of floats, or of the bits of bfloat16 numbers. Returns bytes.
py::array_t<uint8_t> elementary(const std::string& name, const py::array& x, bool is_bfloat16, int num_sms) {
  Device device(num_sms, 80);
  ElementaryMap problem;
  problem.function = name == "exp" ? Elementary::kExp : name == "log" ? Elementary::kLog : Elementary::kSqrt;
  problem.dtype = is_bfloat16          ? Dtype::kBFloat16
                  : x.itemsize() == 2  ? Dtype::kFloat16
                  : x.itemsize() == 4  ? Dtype::kFloat32
                                       : Dtype::kFloat64;
  problem.in = device.upload(x);
  problem.out = device.unwritten(static_cast<size_t>(x.nbytes()), static_cast<size_t>(x.itemsize()));
  problem.count = x.size();
  cuda::map(problem, device.context());
  device.check_guards();
  return py::array_t<uint8_t>(x.nbytes(), static_cast<const uint8_t*>(problem.out));
}

}  // namespace

void bind_elementary(py::module_& module) {
  module.def("elementary", &elementary, py::arg("name"), py::arg("x"), py::arg("is_bfloat16") = false,
             py::arg("num_sms") = 2, "the bytes of the result");
}

}  // namespace reprocuda::testing
