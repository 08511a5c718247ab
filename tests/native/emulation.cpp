// reprocuda_emulation: the CUDA kernels and launchers, run on the emulated device, on NumPy arrays.
#include "emulation.h"

#include <pybind11/stl.h>

#include "emulation/api.h"
#include "emulation/schedule.h"

namespace reprocuda::testing {

PYBIND11_MODULE(reprocuda_emulation, module) {
  namespace emulation = reprocuda::emulation;
  py::register_exception<emulation::KernelError>(module, "KernelError", PyExc_RuntimeError);
  module.attr("NUM_SCHEDULES") = emulation::kNumSchedules;
  module.def(
      "set_options",
      [](uint64_t seed, int schedule, int resident_blocks, bool detect_races, uint64_t max_steps) {
        emulation::set_options({seed, schedule, resident_blocks, detect_races, max_steps});
      },
      py::arg("seed") = 0, py::arg("schedule") = -1, py::arg("resident_blocks") = 0, py::arg("detect_races") = true,
      py::arg("max_steps") = uint64_t{1} << 33);
  module.def("launch_counts", &emulation::launch_counts);
  module.def("reset_launch_counts", &emulation::reset_launch_counts);
  module.def("steps", &emulation::steps);
  module.def("take_output", &emulation::take_output);
  bind_checks(module);
  bind_accumulation(module);
  bind_extrema(module);
  bind_scans(module);
  bind_elementary(module);
  bind_running(module);
}

}  // namespace reprocuda::testing
