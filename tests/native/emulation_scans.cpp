// Prefix sums on the emulated device.
#include "cuda/scan.h"
#include "emulated_device.h"
#include "emulation.h"

namespace reprocuda::testing {
namespace {

// in [outer, length, inner]
py::tuple scan(const py::array& in, const std::string& dtype, int num_sms, bool force_exact) {
  Device device(num_sms, 80);
  const FirstStageScope stage(force_exact);
  const auto bytes = static_cast<size_t>(in.nbytes());
  const Scan problem{kDtypes.at(dtype), device.unwritten(bytes, static_cast<size_t>(in.itemsize())), device.upload(in),
                     in.shape(0),       in.shape(1), in.shape(2)};
  cuda::scan(problem, device.context());
  device.check_guards();
  py::array_t<uint8_t> result(in.nbytes());
  if (bytes != 0) std::memcpy(result.mutable_data(), problem.out, bytes);
  return py::make_tuple(result, device.temporary_bytes());
}

}  // namespace

void bind_scans(py::module_& module) {
  module.def("scan", &scan, py::arg("in"), py::arg("dtype"), py::arg("num_sms") = 2, py::arg("force_exact") = false,
             "(the bytes of the prefix sums, bytes of temporary memory taken)");
}

}  // namespace reprocuda::testing
