// The CUDA backend on the emulated device: canonical problems described by a dict of arrays and numbers, run by the launchers
// of csrc/cuda. Every buffer is guarded, inputs are read-only, whatever nobody has written yet holds a pattern.
#include "emulated_device.h"
#include "emulation.h"

#include <pybind11/stl.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "cuda/accumulate.h"
#include "cuda/bags.h"
#include "cuda/fingerprint.h"
#include "cuda/linearize.h"
#include "cuda/overwrite.h"
#include "emulation/api.h"

namespace reprocuda::testing {
namespace {

using Array = py::array;

const std::map<std::string, Reduction> kReductions = {
    {"sum", Reduction::kSum},   {"mean", Reduction::kMean}, {"prod", Reduction::kProd},
    {"amax", Reduction::kAmax}, {"amin", Reduction::kAmin},
};

const std::map<std::string, Algorithm> kAlgorithms = {
    {"auto", Algorithm::kAuto},        {"rows", Algorithm::kRows},   {"bins", Algorithm::kBins},
    {"fixed_point", Algorithm::kFixedPoint}, {"small", Algorithm::kSmall},
};

// A dict in which every key must be used up.
class Fields {
 public:
  explicit Fields(const py::dict& fields) : rest_(py::reinterpret_borrow<py::dict>(fields.attr("copy")())) {}

  template <class T>
  T take(const char* name, T otherwise) {
    if (!rest_.contains(name)) return otherwise;
    return rest_.attr("pop")(name).cast<T>();
  }
  template <class T>
  T take(const char* name) {
    if (!rest_.contains(name)) throw py::key_error(name);
    return rest_.attr("pop")(name).cast<T>();
  }
  std::optional<Array> take_array(const char* name) {
    const py::object value = take<py::object>(name, py::none());
    if (value.is_none()) return std::nullopt;
    Array array = value.cast<Array>();
    if (!(array.flags() & py::array::c_style)) throw std::invalid_argument(std::string(name) + " is not contiguous");
    return array;
  }
  void finish() const {
    for (const auto& item : rest_) throw py::key_error("unknown field " + item.first.cast<std::string>());
  }

 private:
  py::dict rest_;
};

struct Hooks {
  explicit Hooks(Fields& fields) : stage(fields.take("force_exact", false)) {
    cuda::set_forced_algorithm(kAlgorithms.at(fields.take<std::string>("algorithm", "auto")));
  }
  ~Hooks() { cuda::set_forced_algorithm(Algorithm::kAuto); }

  FirstStageScope stage;
};

struct Outcome {
  void* data = nullptr;
  Array bytes;
};

// The output, which holds `self` first where the call works in place.
Outcome make_output(Device& device, const std::optional<Array>& self, const void** self_pointer, bool in_place, size_t bytes,
                    size_t item_bytes) {
  Outcome outcome;
  outcome.bytes = py::array_t<uint8_t>(static_cast<py::ssize_t>(bytes));
  if (self && static_cast<size_t>(self->nbytes()) != bytes) throw std::invalid_argument("self has another size than out");
  if (in_place) {
    outcome.data = const_cast<void*>(device.upload(self.value(), true));
    *self_pointer = outcome.data;
  } else {
    outcome.data = device.unwritten(bytes, item_bytes);
    *self_pointer = self ? device.upload(*self) : nullptr;
  }
  return outcome;
}

template <class Problem>
Array run(const Problem& problem, Device& device, Outcome& outcome) {
  cuda::accumulate(problem, device.context());
  device.check_guards();
  const auto bytes = static_cast<size_t>(outcome.bytes.nbytes());
  if (bytes != 0) std::memcpy(outcome.bytes.mutable_data(), outcome.data, bytes);
  return outcome.bytes;
}

Device make_device(Fields& fields) { return Device(fields.take("num_sms", 2), fields.take("compute_capability", 80)); }

// An array's size, in Python, for fields that count elements.
void check_size(const Array& array, int64_t expected, const char* name) {
  if (array.size() != expected) throw std::invalid_argument(std::string(name) + " has another size than the problem says");
}

Alpha take_alpha(Fields& fields) {
  Alpha alpha;
  const auto value = fields.take<std::optional<std::tuple<double, double, int64_t>>>("alpha", std::nullopt);
  if (!value) return alpha;
  std::tie(alpha.real, alpha.imag, alpha.integer) = *value;
  alpha.is_one = false;
  return alpha;
}

py::tuple accumulate_rows(const py::dict& description) {
  Fields fields(description);
  Device device = make_device(fields);
  const Hooks hooks(fields);
  Accumulation problem;
  problem.dtype = kDtypes.at(fields.take<std::string>("dtype"));
  problem.complex_pairs = fields.take("complex_pairs", false);
  problem.outer = fields.take("outer", int64_t{1});
  problem.num_targets = fields.take<int64_t>("num_targets");
  problem.num_rows = fields.take<int64_t>("num_rows");
  problem.inner = fields.take("inner", int64_t{1});
  problem.alpha = take_alpha(fields);
  problem.reduction = kReductions.at(fields.take<std::string>("reduce", "sum"));
  problem.include_self = fields.take("include_self", true);
  problem.ignored_target = fields.take("ignored_target", int64_t{-1});

  const Array src = fields.take_array("src").value();
  check_size(src, problem.outer * problem.num_rows * problem.inner, "src");
  problem.src = device.upload(src);
  const auto index = fields.take_array("index");
  if (index) {
    check_size(*index, problem.num_rows, "index");
    problem.index = device.upload(*index);
    problem.index_is_int64 = index->itemsize() == 8;
  }
  Plan plan;
  const auto permutation = fields.take_array("permutation");
  if (permutation) plan.permutation = static_cast<const int64_t*>(device.upload(*permutation));
  const auto offsets = fields.take_array("offsets");
  if (offsets) {
    check_size(*offsets, problem.num_targets + 1, "offsets");
    plan.offsets = static_cast<const int64_t*>(device.upload(*offsets));
    problem.plan = &plan;
  }
  const auto self = fields.take_array("self");
  const bool in_place = fields.take("in_place", false);
  const auto item = static_cast<size_t>(src.itemsize());
  const size_t bytes = static_cast<size_t>(problem.outer * problem.num_targets * problem.inner) * item;
  Outcome outcome = make_output(device, self, &problem.self, in_place, bytes, item);
  problem.out = outcome.data;
  fields.finish();
  const Array result = run(problem, device, outcome);
  return py::make_tuple(result, device.temporary_bytes());
}

void take_numbers(Fields& fields, const char* name, int64_t* out, int expected) {
  const auto values = fields.take<std::vector<int64_t>>(name);
  if (static_cast<int>(values.size()) != expected) {
    throw std::invalid_argument(std::string(name) + " needs a number a dimension");
  }
  std::copy(values.begin(), values.end(), out);
}

py::tuple accumulate_elements(const py::dict& description) {
  Fields fields(description);
  Device device = make_device(fields);
  const Hooks hooks(fields);
  ElementAccumulation problem;
  problem.dtype = kDtypes.at(fields.take<std::string>("dtype"));
  problem.complex_pairs = fields.take("complex_pairs", false);
  problem.reduction = kReductions.at(fields.take<std::string>("reduce", "sum"));
  problem.include_self = fields.take("include_self", true);
  problem.ndim = fields.take<int>("ndim");
  problem.dim = fields.take<int>("dim");
  take_numbers(fields, "sizes", problem.sizes, problem.ndim);
  take_numbers(fields, "src_strides", problem.src_strides, problem.ndim);
  take_numbers(fields, "index_strides", problem.index_strides, problem.ndim);
  take_numbers(fields, "out_strides", problem.out_strides, problem.ndim);
  problem.dim_size = fields.take<int64_t>("dim_size");
  problem.num_out = fields.take<int64_t>("num_out");
  problem.num_elements = 1;
  for (int d = 0; d < problem.ndim; ++d) problem.num_elements *= problem.sizes[d];

  const Array src = fields.take_array("src").value();
  const Array index = fields.take_array("index").value();
  problem.src = device.upload(src);
  problem.index = device.upload(index);
  problem.index_is_int64 = index.itemsize() == 8;
  const auto self = fields.take_array("self");
  const bool in_place = fields.take("in_place", false);
  const auto item = static_cast<size_t>(src.itemsize());
  const size_t bytes = static_cast<size_t>(problem.num_out) * (problem.complex_pairs ? 2 : 1) * item;
  Outcome outcome = make_output(device, self, &problem.self, in_place, bytes, item);
  problem.out = outcome.data;
  fields.finish();
  const Array result = run(problem, device, outcome);
  return py::make_tuple(result, device.temporary_bytes());
}

py::tuple build_plan(const Array& index, int64_t num_targets, int num_sms) {
  Device device(num_sms, 80);
  const int64_t n = index.size();
  auto* permutation = static_cast<int64_t*>(device.unwritten(static_cast<size_t>(n) * 8, 8));
  auto* offsets = static_cast<int64_t*>(device.unwritten(static_cast<size_t>(num_targets + 1) * 8, 8));
  cuda::build_plan(device.upload(index), index.itemsize() == 8, n, num_targets, permutation, offsets, device.context());
  device.check_guards();
  return py::make_tuple(py::array_t<int64_t>(n, permutation), py::array_t<int64_t>(num_targets + 1, offsets));
}

py::array_t<int64_t> linearize(const std::vector<Array>& indices, const std::vector<std::vector<int64_t>>& strides,
                               const std::vector<int64_t>& dim_sizes, const std::vector<int64_t>& multipliers,
                               const std::vector<int64_t>& sizes) {
  Device device(2, 80);
  IndexLinearization problem;
  problem.num_indices = static_cast<int>(indices.size());
  problem.ndim = static_cast<int>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    problem.sizes[d] = sizes[d];
    problem.num_elements *= sizes[d];
  }
  for (size_t k = 0; k < indices.size(); ++k) {
    problem.indices[k] = device.upload(indices[k]);
    problem.is_int64[k] = indices[k].itemsize() == 8;
    std::copy(strides[k].begin(), strides[k].end(), problem.strides[k]);
    problem.dim_sizes[k] = dim_sizes[k];
    problem.multipliers[k] = multipliers[k];
  }
  problem.keys = static_cast<int64_t*>(device.unwritten(static_cast<size_t>(problem.num_elements) * 8, 8));
  cuda::linearize(problem, device.context());
  device.check_guards();
  return py::array_t<int64_t>(problem.num_elements, problem.keys);
}

Array bytes_of(const void* data, size_t bytes) {
  py::array_t<uint8_t> copy(static_cast<py::ssize_t>(bytes));
  if (bytes != 0) std::memcpy(copy.mutable_data(), data, bytes);
  return copy;
}

const int64_t* upload_numbers(Device& device, const Array& array) {
  if (array.itemsize() != 8) throw std::invalid_argument("rows and offsets are int64");
  return static_cast<const int64_t*>(device.upload(array));
}

void take_bags(BagRows& bags, Device& device, const Array& table, const Array& rows, const Array& offsets) {
  bags.table = device.upload(table);
  bags.num_table_rows = table.shape(0);
  bags.features = table.shape(1);
  bags.rows = upload_numbers(device, rows);
  bags.num_rows = rows.size();
  bags.offsets = upload_numbers(device, offsets);
  bags.num_bags = offsets.size() - 1;
}

Array bag_sum(const std::string& dtype, const Array& table, const Array& rows, const Array& offsets,
              const std::optional<Array>& weights, bool mean, bool force_exact, int num_sms) {
  Device device(num_sms, 80);
  BagSum problem;
  take_bags(problem, device, table, rows, offsets);
  problem.dtype = kDtypes.at(dtype);
  problem.mean = mean;
  problem.weights_are_wide = true;
  if (weights) problem.weights = device.upload(*weights);
  const auto bytes = static_cast<size_t>(problem.num_bags * problem.features * table.itemsize());
  problem.out = device.unwritten(bytes, static_cast<size_t>(table.itemsize()));
  const FirstStageScope stage(force_exact);
  cuda::bag_sum(problem, device.context());
  device.check_guards();
  return bytes_of(problem.out, bytes);
}

py::tuple bag_maximum(const std::string& dtype, const Array& table, const Array& rows, const Array& offsets, int num_sms) {
  Device device(num_sms, 80);
  BagMaximum problem;
  take_bags(problem, device, table, rows, offsets);
  problem.dtype = kDtypes.at(dtype);
  const auto outputs = static_cast<size_t>(problem.num_bags * problem.features);
  const size_t bytes = outputs * static_cast<size_t>(table.itemsize());
  problem.out = device.unwritten(bytes, static_cast<size_t>(table.itemsize()));
  problem.argmax = static_cast<int64_t*>(device.unwritten(outputs * 8, 8));
  cuda::bag_maximum(problem, device.context());
  device.check_guards();
  return py::make_tuple(bytes_of(problem.out, bytes), bytes_of(problem.argmax, outputs * 8));
}

Array row_products(const std::string& dtype, const Array& left, const Array& left_rows, const Array& right,
                   const Array& right_rows, int64_t ignored, bool force_exact, int num_sms) {
  Device device(num_sms, 80);
  RowProducts problem;
  problem.dtype = kDtypes.at(dtype);
  problem.left = device.upload(left);
  problem.left_rows = upload_numbers(device, left_rows);
  problem.num_left = left.shape(0);
  problem.right = device.upload(right);
  problem.right_rows = upload_numbers(device, right_rows);
  problem.num_right = right.shape(0);
  problem.ignored = ignored;
  problem.num_products = left_rows.size();
  problem.features = left.shape(1);
  const auto bytes = static_cast<size_t>(problem.num_products * left.itemsize());
  problem.out = device.unwritten(bytes, static_cast<size_t>(left.itemsize()));
  const FirstStageScope stage(force_exact);
  cuda::row_products(problem, device.context());
  device.check_guards();
  return bytes_of(problem.out, bytes);
}

// Strides in elements of `out`, into the memory of each array.
py::tuple overwrite(const Array& out, const Array& src, const Array& index, const std::vector<int64_t>& sizes, int dim,
                    const std::vector<int64_t>& src_strides, const std::vector<int64_t>& index_strides,
                    const std::vector<int64_t>& out_strides, int64_t dim_size, bool wraps, int num_sms) {
  Device device(num_sms, 80);
  Overwrite problem;
  problem.element_bytes = static_cast<int>(out.itemsize());
  problem.out = const_cast<void*>(device.upload(out, true));
  problem.src = device.upload(src);
  problem.index = device.upload(index);
  problem.index_is_int64 = index.itemsize() == 8;
  problem.wraps = wraps;
  problem.ndim = static_cast<int>(sizes.size());
  problem.dim = dim;
  std::copy(sizes.begin(), sizes.end(), problem.sizes);
  std::copy(src_strides.begin(), src_strides.end(), problem.src_strides);
  std::copy(index_strides.begin(), index_strides.end(), problem.index_strides);
  std::copy(out_strides.begin(), out_strides.end(), problem.out_strides);
  problem.dim_size = dim_size;
  problem.num_elements = 1;
  for (const int64_t size : sizes) problem.num_elements *= size;
  cuda::overwrite(problem, device.context());
  device.check_guards();
  py::array_t<uint8_t> bytes(out.nbytes());
  std::memcpy(bytes.mutable_data(), problem.out, static_cast<size_t>(out.nbytes()));
  return py::make_tuple(bytes, device.temporary_bytes());
}

// Of the elements of `memory` from `first` on, along strides in elements.
py::tuple fingerprint(const Array& memory, int64_t first, const std::vector<int64_t>& sizes,
                      const std::vector<int64_t>& strides, std::tuple<uint64_t, uint64_t> header, int num_sms) {
  Device device(num_sms, 80);
  FingerprintProblem problem;
  problem.element_bytes = static_cast<int>(memory.itemsize());
  problem.is_bool = memory.dtype().kind() == 'b';
  problem.data = static_cast<const char*>(device.upload(memory)) + first * memory.itemsize();
  problem.ndim = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), problem.sizes);
  std::copy(strides.begin(), strides.end(), problem.strides);
  for (const int64_t size : sizes) problem.num_elements *= size;
  problem.header = {{std::get<0>(header), std::get<1>(header)}};
  auto* digest = static_cast<int64_t*>(device.unwritten(16, 8));
  cuda::fingerprint(problem, digest, device.context());
  device.check_guards();
  return py::make_tuple(static_cast<uint64_t>(digest[0]), static_cast<uint64_t>(digest[1]));
}

}  // namespace

void bind_accumulation(py::module_& module) {
  module.def("accumulate_rows", &accumulate_rows, "(the bytes of the output, bytes of temporary memory taken)");
  module.def("accumulate_elements", &accumulate_elements, "(the bytes of the output, bytes of temporary memory taken)");
  module.def("build_plan", &build_plan, py::arg("index"), py::arg("num_targets"), py::arg("num_sms") = 2);
  module.def("linearize", &linearize, py::arg("indices"), py::arg("strides"), py::arg("dim_sizes"), py::arg("multipliers"),
             py::arg("sizes"));
  module.def("overwrite", &overwrite, py::arg("out"), py::arg("src"), py::arg("index"), py::arg("sizes"), py::arg("dim"),
             py::arg("src_strides"), py::arg("index_strides"), py::arg("out_strides"), py::arg("dim_size"),
             py::arg("wraps") = false, py::arg("num_sms") = 2, "(the bytes of out, bytes of temporary memory taken)");
  module.def("bag_sum", &bag_sum);
  module.def("bag_maximum", &bag_maximum);
  module.def("row_products", &row_products);
  module.def("fingerprint", &fingerprint, py::arg("memory"), py::arg("first"), py::arg("sizes"), py::arg("strides"),
             py::arg("header"), py::arg("num_sms") = 2);
}

}  // namespace reprocuda::testing
