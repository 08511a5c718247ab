// scatter_max and scatter_min of torch_scatter: an extremum along one dimension by index, and where it comes from.
#pragma once

#include <algorithm>

#include "../problems/extremum.h"
#include "index_add.h"

namespace reprocuda {

inline constexpr const char* kExtremumSchemas[] = {
    "scatter_extremum(Tensor src, int dim, Tensor index, SymInt dim_size, Tensor? self, bool largest) -> (Tensor values, "
    "Tensor positions)",
};

// Whether an index is the same along all dimensions in [first, last).
inline bool is_constant(const Tensor& index, int64_t first, int64_t last) {
  for (int64_t d = first; d < last; ++d) {
    if (index.stride(d) != 0 && index.size(d) != 1) return false;
  }
  return true;
}

// One number for all that share it, along dimensions [first, last).
inline void collapse(Sizes& sizes, int64_t first, int64_t last) { std::fill(sizes.begin() + first, sizes.begin() + last, 1); }

template <class Backend>
std::tuple<Tensor, Tensor> scatter_extremum(const Tensor& src, int64_t dim, const Tensor& index, int64_t dim_size,
                                            const std::optional<Tensor>& self, bool largest) {
  const char* const op = largest ? "scatter_max" : "scatter_min";
  check<std::runtime_error>(src.dim() >= 1, op, "(): src must have at least one dimension");
  check<std::out_of_range>(dim >= -src.dim() && dim < src.dim(), op, "(): dimension ", dim, " is out of range for src with ",
                           src.dim(), " dimensions");
  dim = dim < 0 ? dim + src.dim() : dim;
  const auto type = element_type(src.scalar_type());
  check<std::runtime_error>(type && !type->is_complex, op, "(): src has a dtype without order");
  check<std::runtime_error>(is_index_dtype(index), op, "(): index must be int32 or int64");
  check<std::runtime_error>(sizes_of(index) == sizes_of(src), op, "(): index must have the shape of src");
  check<std::runtime_error>(same_device(src, index), op, "(): src and index are on different devices");
  check<std::runtime_error>(dim_size >= 0, op, "(): dim_size must not be negative, got ", dim_size);
  Sizes sizes = sizes_of(src);
  sizes[dim] = dim_size;
  if (self) {
    check<std::runtime_error>(sizes_of(*self) == sizes && same_dtype(*self, src) && same_device(*self, src), op,
                              "(): self must have the dtype of src, and its shape but for dim_size along dim");
  }
  const Tensor numbers = as_contiguous(src);
  const std::optional<Tensor> own = self ? std::optional<Tensor>(as_contiguous(*self)) : std::nullopt;
  Tensor values = new_tensor(sizes, src.scalar_type(), src);
  Tensor positions = new_tensor(sizes, ScalarType::Long, src);

  Extremum problem;
  problem.dtype = type->dtype;
  problem.largest = largest;
  problem.num_rows = src.size(dim);
  problem.num_targets = dim_size;
  problem.outer = product(sizes.data(), sizes.data() + dim);
  problem.inner = product(sizes.data() + dim + 1, sizes.data() + sizes.size());
  Sizes index_sizes = sizes_of(index);
  const bool same_outer = is_constant(index, 0, dim);
  const bool same_inner = is_constant(index, dim + 1, index.dim());
  if (same_outer) collapse(index_sizes, 0, dim);
  if (same_inner) collapse(index_sizes, dim + 1, index.dim());
  const auto strides = index.strides();
  const Sizes index_strides(strides.begin(), strides.end());
  const Tensor keys = index.numel() == 0 ? index : as_contiguous(view_as(index, index_sizes, index_strides));
  problem.inner_stride = same_inner ? 0 : 1;
  problem.row_stride = same_inner ? 1 : problem.inner;
  problem.outer_stride = same_outer ? 0 : problem.num_rows * problem.row_stride;
  problem.index = keys.const_data_ptr();
  problem.index_is_int64 = keys.scalar_type() == ScalarType::Long;
  problem.src = numbers.const_data_ptr();
  problem.self = own ? own->const_data_ptr() : nullptr;
  problem.out = values.mutable_data_ptr();
  problem.arg = static_cast<int64_t*>(positions.mutable_data_ptr());
  const int64_t bad = Backend::extremum(problem, values);
  if (bad >= 0) raise_index_out_of_range(op, keys, bad, dim, dim_size, /*as_index_error=*/true);
  return {values, positions};
}

template <class Backend>
void register_extremum(torch::stable::detail::StableLibrary& library) {
  library.impl("scatter_extremum", TORCH_BOX(&scatter_extremum<Backend>));
}

}  // namespace reprocuda
