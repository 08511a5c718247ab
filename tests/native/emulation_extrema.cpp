// Extrema with their positions, and histograms, on the emulated device.
#include <pybind11/stl.h>

#include <optional>
#include <tuple>

#include "cuda/extremum.h"
#include "cuda/histogram.h"
#include "emulated_device.h"
#include "emulation.h"

namespace reprocuda::testing {
namespace {

using Array = py::array;

py::array_t<uint8_t> bytes_of(const void* data, size_t size) {
  py::array_t<uint8_t> bytes(static_cast<py::ssize_t>(size));
  std::memcpy(bytes.mutable_data(), data, size);
  return bytes;
}

// src [outer, num_rows, inner]; index_strides those of `index` along the same.
py::tuple extremum(const std::string& dtype, bool largest, const Array& src, const Array& index,
                   const std::tuple<int64_t, int64_t, int64_t>& index_strides, int64_t num_targets,
                   const std::optional<Array>& self, bool two_passes, int num_sms) {
  Device device(num_sms, 80);
  Extremum problem;
  problem.dtype = kDtypes.at(dtype);
  problem.largest = largest;
  problem.outer = src.shape(0);
  problem.num_rows = src.shape(1);
  problem.inner = src.shape(2);
  problem.num_targets = num_targets;
  problem.src = device.upload(src);
  problem.self = self ? device.upload(*self) : nullptr;
  problem.index = device.upload(index);
  problem.index_is_int64 = index.itemsize() == 8;
  std::tie(problem.outer_stride, problem.row_stride, problem.inner_stride) = index_strides;
  const size_t outputs = static_cast<size_t>(problem.outer * num_targets * problem.inner);
  const size_t item = static_cast<size_t>(src.itemsize());
  problem.out = device.unwritten(outputs * item, item);
  problem.arg = static_cast<int64_t*>(device.unwritten(outputs * 8, 8));
  cuda::extremum(problem, device.context(), two_passes ? cuda::ExtremumPasses::kTwo : cuda::ExtremumPasses::kByWidth);
  device.check_guards();
  return py::make_tuple(bytes_of(problem.out, outputs * item),
                        py::array_t<int64_t>(static_cast<py::ssize_t>(outputs), problem.arg), device.temporary_bytes());
}

// points [num_points, num_dims], edges vectors of the same dtype.
py::array_t<int64_t> histogram(const std::string& dtype, int search, const Array& points, const std::vector<Array>& edges,
                               bool counts, int num_sms) {
  Device device(num_sms, 80);
  Histogram problem;
  problem.dtype = kDtypes.at(dtype);
  problem.search = static_cast<BinSearch>(search);
  problem.points = device.upload(points);
  problem.num_points = points.shape(0);
  problem.num_dims = points.shape(1);
  problem.num_bins = 1;
  std::vector<const void*> data;
  std::vector<int64_t> num_edges;
  for (const Array& edge : edges) {
    data.push_back(device.upload(edge));
    num_edges.push_back(edge.size());
    problem.num_bins *= edge.size() - 1;
  }
  problem.edges = data.data();
  problem.num_edges = num_edges.data();
  const int64_t size = counts ? problem.num_bins : problem.num_points;
  auto* const result = static_cast<int64_t*>(device.unwritten(static_cast<size_t>(size) * 8, 8));
  counts ? cuda::histogram_counts(problem, result, device.context()) : cuda::histogram_keys(problem, result, device.context());
  device.check_guards();
  return py::array_t<int64_t>(size, result);
}

}  // namespace

void bind_extrema(py::module_& module) {
  module.def("extremum", &extremum, py::arg("dtype"), py::arg("largest"), py::arg("src"), py::arg("index"),
             py::arg("index_strides"), py::arg("num_targets"), py::arg("self") = py::none(), py::arg("two_passes") = false,
             py::arg("num_sms") = 2, "(the bytes of the numbers, the positions, bytes of temporary memory taken)");
  module.def("histogram", &histogram, py::arg("dtype"), py::arg("search"), py::arg("points"), py::arg("edges"),
             py::arg("counts"), py::arg("num_sms") = 2);
}

}  // namespace reprocuda::testing
