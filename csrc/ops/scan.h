// cumsum: every prefix along a dimension, its own exact sum. The dtype is that of the result: who wants another casts first.
#pragma once

#include "tensor.h"

namespace reprocuda {

inline constexpr const char* kScanSchemas[] = {
    "cumsum(Tensor self, int dim) -> Tensor",
    "cumsum_(Tensor(a!) self, int dim) -> ()",
    "cumsum_out(Tensor self, int dim, Tensor(a!) out) -> ()",
};

template <class Backend>
void cumsum_into(const Tensor& self, int64_t dim, const Tensor& out, const char* op) {
  const ElementType type = require_element_type(self, op);
  check<Irregular>(type.dtype != Dtype::kBool, op, "(): bools have no sums of their own dtype");
  dim = wrap_dim(dim, self.dim(), op);
  const Tensor in = as_contiguous(self);
  const Sizes sizes = sizes_of(self);
  const auto begin = sizes.data();
  const bool is_scalar = sizes.empty();
  const int64_t outer = is_scalar ? 1 : product(begin, begin + dim);
  const int64_t length = is_scalar ? 1 : sizes[static_cast<size_t>(dim)];
  const int64_t inner = is_scalar ? 1 : product(begin + dim + 1, begin + sizes.size());
  Backend::scan(type.dtype, in, out, outer, length, inner * (type.is_complex ? 2 : 1));
}

template <class Backend>
Tensor cumsum(const Tensor& self, int64_t dim) {
  Tensor out = new_tensor(sizes_of(self), dtype_number(self), self);
  cumsum_into<Backend>(self, dim, out, "cumsum");
  return out;
}

template <class Backend>
void cumsum_(const Tensor& self, int64_t dim) {
  check<Irregular>(elements_are_distinct(self), "cumsum_(): elements of self share memory");
  Tensor written = self;
  torch::stable::copy_(written, cumsum<Backend>(self, dim));
}

template <class Backend>
void cumsum_out(const Tensor& self, int64_t dim, const Tensor& out) {
  constexpr const char* op = "cumsum";
  check<Irregular>(same_dtype(self, out) && same_device(self, out) && sizes_of(self) == sizes_of(out), op,
                   "(): out must have the shape, dtype and device of the result");
  const auto in_strides = self.strides();
  const auto out_strides = out.strides();
  if (self.const_data_ptr() == out.const_data_ptr() &&
      std::equal(in_strides.begin(), in_strides.end(), out_strides.begin(), out_strides.end())) {
    return cumsum_<Backend>(out, dim);
  }
  check<Irregular>(elements_are_distinct(out), op, "(): elements of out share memory");
  const Tensor source = detach_from(self, out, op);
  if (out.is_contiguous()) {
    return cumsum_into<Backend>(source, dim, out, op);
  }
  Tensor written = out;
  torch::stable::copy_(written, cumsum<Backend>(source, dim));
}

template <class Backend>
void register_scan(torch::stable::detail::StableLibrary& library) {
  library.impl("cumsum", TORCH_BOX(&cumsum<Backend>));
  library.impl("cumsum_", TORCH_BOX(&cumsum_<Backend>));
  library.impl("cumsum_out", TORCH_BOX(&cumsum_out<Backend>));
}

}  // namespace reprocuda
