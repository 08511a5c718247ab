// exp, log and sqrt of every element, with the same bits on every device (numerics/elementary.h).
#pragma once

#include "../problems/elementary.h"
#include "tensor.h"

namespace reprocuda {

inline constexpr const char* kElementarySchemas[] = {
    "exp(Tensor self) -> Tensor",
    "log(Tensor self) -> Tensor",
    "sqrt(Tensor self) -> Tensor",
};

inline constexpr const char* kElementaryNames[] = {"exp", "log", "sqrt"};

template <class Backend, Elementary function>
Tensor map_elements(const Tensor& self) {
  constexpr const char* op = kElementaryNames[static_cast<int>(function)];
  const auto type = element_type(self.scalar_type());
  check<std::runtime_error>(type && !type->is_complex && is_floating_point(type->dtype), op,
                            "(): self must be of a real floating-point dtype");
  const Tensor in = as_contiguous(self);
  Tensor out = new_tensor(sizes_of(self), dtype_number(self), self);
  ElementaryMap problem;
  problem.function = function;
  problem.dtype = type->dtype;
  problem.out = out.mutable_data_ptr();
  problem.in = in.const_data_ptr();
  problem.count = self.numel();
  Backend::map(problem, self);
  return out;
}

template <class Backend>
void register_elementary(torch::stable::detail::StableLibrary& library) {
  library.impl("exp", TORCH_BOX((&map_elements<Backend, Elementary::kExp>)));
  library.impl("log", TORCH_BOX((&map_elements<Backend, Elementary::kLog>)));
  library.impl("sqrt", TORCH_BOX((&map_elements<Backend, Elementary::kSqrt>)));
}

}  // namespace reprocuda
