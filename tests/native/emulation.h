// What the parts of the reprocuda_emulation module share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

namespace reprocuda::testing {

namespace py = pybind11;

void bind_checks(py::module_& module);       // the emulator's own tests: emulation_checks.cpp
void bind_accumulation(py::module_& module); // the CUDA backend: emulation_problems.cpp
void bind_extrema(py::module_& module);      // emulation_extrema.cpp
void bind_scans(py::module_& module);        // emulation_scans.cpp
void bind_elementary(py::module_& module);   // exp and log: emulation_elementary.cpp
void bind_running(py::module_& module);      // cumprod and logcumsumexp: emulation_running.cpp

}  // namespace reprocuda::testing
