// The dense gradient of an embedding table: rows of the incoming gradient summed by token.
#pragma once

#include "accumulate.h"

namespace reprocuda {

inline constexpr const char* kEmbeddingSchemas[] = {
    "embedding_dense_backward(Tensor grad_output, Tensor indices, SymInt num_weights, SymInt padding_idx, "
    "bool scale_grad_by_freq) -> Tensor",
};

template <class Backend>
Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights, int64_t padding_idx,
                                bool scale_grad_by_freq) {
  constexpr const char* op = "embedding_dense_backward";
  check<Irregular>(is_index_dtype(indices), op, "(): indices must be int32 or int64");
  check<Irregular>(same_device(grad_output, indices), op, "(): tensors are on different devices");
  check<Irregular>(num_weights >= 0, op, "(): num_weights must not be negative");
  const ElementType type = require_element_type(grad_output, op);
  check<Irregular>(is_floating_point(type.dtype), op, "(): grad_output must be floating point");
  check<Irregular>(grad_output.dim() == indices.dim() + 1, op, "(): grad_output must be indices' shape and one dimension");
  for (int64_t d = 0; d < indices.dim(); ++d) {
    check<Irregular>(grad_output.size(d) == indices.size(d), op, "(): grad_output and indices have different shapes");
  }
  const int64_t features = grad_output.size(indices.dim());
  const Tensor rows = as_contiguous(grad_output);
  const Tensor keys = as_contiguous(indices);
  Tensor out = new_tensor({num_weights, features}, grad_output.scalar_type(), grad_output);
  Accumulation problem = make_accumulation(type);
  set_shape(problem, {1, num_weights, features}, keys.numel());
  problem.out = out.mutable_data_ptr();
  problem.src = rows.const_data_ptr();
  problem.index = keys.const_data_ptr();
  problem.index_is_int64 = keys.scalar_type() == ScalarType::Long;
  if (scale_grad_by_freq) problem.reduction = Reduction::kMean;
  problem.ignored_target = padding_idx;
  const int64_t bad = Backend::accumulate(problem, out);
  if (bad >= 0) {
    raise<std::out_of_range>(op, "(): index ", index_value(indices, bad), " is out of bounds for a table of ", num_weights,
                             " rows, at position ", bad);
  }
  return out;
}

template <class Backend>
void register_embedding(torch::stable::detail::StableLibrary& library) {
  library.impl("embedding_dense_backward", TORCH_BOX(&embedding_dense_backward<Backend>));
}

}  // namespace reprocuda
