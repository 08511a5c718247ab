// Running products and log-sum-exps on the emulated device.
#include "cuda/running.h"
#include "emulated_device.h"
#include "emulation.h"

namespace reprocuda::testing {
namespace {

Dtype dtype_of(const py::array& x, bool is_bfloat16) {
  const auto size = x.itemsize() / (x.dtype().kind() == 'c' ? 2 : 1);
  if (is_bfloat16) return Dtype::kBFloat16;
  if (x.dtype().kind() == 'u' || x.dtype().kind() == 'i') {
    return size == 1 ? Dtype::kUInt8 : size == 2 ? Dtype::kInt16 : size == 4 ? Dtype::kInt32 : Dtype::kInt64;
  }
  return size == 2 ? Dtype::kFloat16 : size == 4 ? Dtype::kFloat32 : Dtype::kFloat64;
}

// Of x [outer, length, inner]. Returns its bytes.
py::array_t<uint8_t> running(const std::string& name, const py::array& x, bool is_bfloat16, bool in_place, int num_sms) {
  Device device(num_sms, 80);
  const auto bytes = static_cast<size_t>(x.nbytes());
  RunningScan problem;
  problem.operation = name == "cumprod" ? Running::kProduct : Running::kLogSumExp;
  problem.dtype = dtype_of(x, is_bfloat16);
  problem.is_complex = x.dtype().kind() == 'c';
  problem.in = device.upload(x, in_place);
  problem.out = in_place ? const_cast<void*>(problem.in) : device.unwritten(bytes, static_cast<size_t>(x.itemsize()));
  problem.outer = x.shape(0);
  problem.length = x.shape(1);
  problem.inner = x.shape(2);
  cuda::running(problem, device.context());
  device.check_guards();
  return py::array_t<uint8_t>(x.nbytes(), static_cast<const uint8_t*>(problem.out));
}

}  // namespace

void bind_running(py::module_& module) {
  module.def("running", &running, py::arg("name"), py::arg("x"), py::arg("is_bfloat16") = false, py::arg("in_place") = false,
             py::arg("num_sms") = 2, "the bytes of the result");
}

}  // namespace reprocuda::testing
