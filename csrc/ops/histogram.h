// Histograms: the bin of every point, and how many points there are in each.
#pragma once

#include <limits>
#include <string>

#include "../problems/histogram.h"
#include "tensor.h"
#include "text.h"

namespace reprocuda {

inline constexpr const char* kHistogramSchemas[] = {
    "histogram_keys(Tensor points, Tensor[] edges, str search) -> Tensor",
    "histogram_counts(Tensor points, Tensor[] edges, str search) -> Tensor",
};

inline BinSearch bin_search_named(const std::string& name, const char* op) {
  if (name == "interpolate") return BinSearch::kInterpolate;
  if (name == "nearby") return BinSearch::kInterpolateNearby;
  if (name == "bisect") return BinSearch::kBisect;
  raise<std::runtime_error>(op, "(): search must be interpolate, nearby or bisect, not ", name);
}

// points [num_points, num_dims] and edges [num_dims] vectors of one real floating dtype. Backend::histogram(problem, out,
// counts) does the work.
template <class Backend>
Tensor histogram(const Tensor& points, const std::vector<Tensor>& edges, const std::string& search, bool counts) {
  constexpr const char* op = "histogram";
  const auto type = element_type(points.scalar_type());
  check<std::runtime_error>(type && is_floating_point(type->dtype) && !type->is_complex, op,
                            "(): points must be real and floating point");
  Histogram problem;
  problem.dtype = type->dtype;
  problem.search = bin_search_named(search, op);
  check<std::runtime_error>(points.dim() == 2 && points.size(1) == static_cast<int64_t>(edges.size()) && !edges.empty(), op,
                            "(): points must be a matrix with a column for each of ", edges.size(), " dimensions");
  std::vector<Tensor> dense;
  std::vector<const void*> data;
  std::vector<int64_t> num_edges;
  problem.num_bins = 1;
  for (const Tensor& edge : edges) {
    check<std::runtime_error>(edge.dim() == 1 && edge.numel() >= 2 && same_dtype(edge, points) && same_device(edge, points), op,
                              "(): edges must be vectors of at least two elements, of the dtype and device of points");
    dense.push_back(as_contiguous(edge));
    data.push_back(dense.back().const_data_ptr());
    num_edges.push_back(edge.numel());
    check<std::runtime_error>(problem.num_bins <= std::numeric_limits<int64_t>::max() / edge.numel(), op,
                              "(): edges have more bins together than 64 bits count");
    problem.num_bins *= edge.numel() - 1;
  }
  const Tensor source = as_contiguous(points);
  problem.points = source.const_data_ptr();
  problem.num_points = points.size(0);
  problem.num_dims = points.size(1);
  problem.edges = data.data();
  problem.num_edges = num_edges.data();
  Tensor out = new_tensor({counts ? problem.num_bins : problem.num_points}, ScalarType::Long, points);
  Backend::histogram(problem, out, counts);
  return out;
}

template <class Backend>
Tensor histogram_keys(const Tensor& points, const std::vector<Tensor>& edges, StringHandle search) {
  return histogram<Backend>(points, edges, take_string(search), /*counts=*/false);
}

template <class Backend>
Tensor histogram_counts(const Tensor& points, const std::vector<Tensor>& edges, StringHandle search) {
  return histogram<Backend>(points, edges, take_string(search), /*counts=*/true);
}

template <class Backend>
void register_histogram(torch::stable::detail::StableLibrary& library) {
  library.impl("histogram_keys", TORCH_BOX(&histogram_keys<Backend>));
  library.impl("histogram_counts", TORCH_BOX(&histogram_counts<Backend>));
}

}  // namespace reprocuda
