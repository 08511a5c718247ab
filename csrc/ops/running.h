// cumprod and logcumsumexp: what precedes and includes every element along a dimension, in one order on every device.
#pragma once

#include "../problems/running.h"
#include "tensor.h"

namespace reprocuda {

inline constexpr const char* kRunningSchemas[] = {
    "cumprod(Tensor self, int dim) -> Tensor",
    "cumprod_(Tensor(a!) self, int dim) -> ()",
    "cumprod_out(Tensor self, int dim, Tensor(a!) out) -> ()",
    "logcumsumexp(Tensor self, int dim) -> Tensor",
    "logcumsumexp_out(Tensor self, int dim, Tensor(a!) out) -> ()",
};

inline const char* name_of(Running operation) { return operation == Running::kProduct ? "cumprod" : "logcumsumexp"; }

// `out` is contiguous, of the dtype and shape of self; it may be self.
template <class Backend, Running kOperation>
void running_into(const Tensor& self, int64_t dim, const Tensor& out) {
  const char* const op = name_of(kOperation);
  const ElementType type = require_element_type(self, op);
  check<Irregular>(type.dtype != Dtype::kBool, op, "(): not of bools");
  check<Irregular>(kOperation == Running::kProduct || (is_floating_point(type.dtype) && !type.is_complex), op,
                   "(): self must be of a real floating-point dtype");
  dim = wrap_dim(dim, self.dim(), op);
  const Tensor in = as_contiguous(self);
  const Sizes sizes = sizes_of(self);
  RunningScan problem;
  problem.operation = kOperation;
  problem.dtype = type.dtype;
  problem.is_complex = type.is_complex;
  problem.out = out.mutable_data_ptr();
  problem.in = in.const_data_ptr();
  problem.length = 1;
  if (!sizes.empty()) {
    problem.outer = product(sizes.data(), sizes.data() + dim);
    problem.length = sizes[static_cast<size_t>(dim)];
    problem.inner = product(sizes.data() + dim + 1, sizes.data() + sizes.size());
  }
  if (self.numel() > 0) Backend::running(problem, out);
}

template <class Backend, Running kOperation>
Tensor running(const Tensor& self, int64_t dim) {
  Tensor out = new_tensor(sizes_of(self), dtype_number(self), self);
  running_into<Backend, kOperation>(self, dim, out);
  return out;
}

template <class Backend, Running kOperation>
void running_(const Tensor& self, int64_t dim) {
  if (self.is_contiguous()) return running_into<Backend, kOperation>(self, dim, self);
  check<Irregular>(elements_are_distinct(self), name_of(kOperation), "(): elements of self share memory");
  Tensor written = self;
  torch::stable::copy_(written, running<Backend, kOperation>(self, dim));
}

template <class Backend, Running kOperation>
void running_out(const Tensor& self, int64_t dim, const Tensor& out) {
  const char* const op = name_of(kOperation);
  check<Irregular>(same_dtype(self, out) && same_device(self, out) && sizes_of(self) == sizes_of(out), op,
                   "(): out must have the shape, dtype and device of the result");
  const auto in_strides = self.strides();
  const auto out_strides = out.strides();
  if (self.const_data_ptr() == out.const_data_ptr() &&
      std::equal(in_strides.begin(), in_strides.end(), out_strides.begin(), out_strides.end())) {
    return running_<Backend, kOperation>(out, dim);
  }
  check<Irregular>(elements_are_distinct(out), op, "(): elements of out share memory");
  const Tensor source = detach_from(self, out, op);
  if (out.is_contiguous()) return running_into<Backend, kOperation>(source, dim, out);
  Tensor written = out;
  torch::stable::copy_(written, running<Backend, kOperation>(source, dim));
}

template <class Backend>
void register_running(torch::stable::detail::StableLibrary& library) {
  library.impl("cumprod", TORCH_BOX((&running<Backend, Running::kProduct>)));
  library.impl("cumprod_", TORCH_BOX((&running_<Backend, Running::kProduct>)));
  library.impl("cumprod_out", TORCH_BOX((&running_out<Backend, Running::kProduct>)));
  library.impl("logcumsumexp", TORCH_BOX((&running<Backend, Running::kLogSumExp>)));
  library.impl("logcumsumexp_out", TORCH_BOX((&running_out<Backend, Running::kLogSumExp>)));
}

}  // namespace reprocuda
