// Embedding bags: rows of a table gathered into bags, summed, averaged or compared without a copy of what is gathered. Their
// derivatives are the same sums with rows and bags exchanged, and products of row by row.
#pragma once

#include "segment.h"

namespace reprocuda {

inline constexpr const char* kEmbeddingBagSchemas[] = {
    "gather_segment_sum(Tensor table, Tensor rows, Tensor offsets, Tensor? weights, bool mean, SymInt ignored=-1) -> Tensor",
    "gather_segment_max(Tensor table, Tensor rows, Tensor offsets) -> (Tensor values, Tensor argmax)",
    "gather_row_products(Tensor left, Tensor left_rows, Tensor right, Tensor right_rows, SymInt ignored=-1) -> Tensor",
};

inline ElementType require_table(const Tensor& table, const char* op) {
  const ElementType type = require_element_type(table, op);
  check<Irregular>(is_floating_point(type.dtype) && !type.is_complex, op, "(): the table must be real floating point");
  check<Irregular>(table.dim() == 2, op, "(): the table must be a matrix");
  return type;
}

// An int64 vector whose entries name rows of a table.
template <class Backend>
Tensor require_rows(const Tensor& rows, const Tensor& table, const char* op) {
  check<Irregular>(rows.scalar_type() == ScalarType::Long && rows.dim() == 1 && same_device(rows, table), op,
                   "(): rows must be an int64 vector on the device of the table");
  const Tensor dense = as_contiguous(rows);
  const int64_t bad = Backend::first_out_of_range(dense, 0, table.size(0));
  if (bad >= 0) {
    raise<std::runtime_error>(op, "(): index ", index_value(dense, bad), " is out of bounds for a table of ", table.size(0),
                              " rows, at position ", bad);
  }
  return dense;
}

template <class Backend>
Tensor require_offsets(const Tensor& offsets, const Tensor& rows, const char* op) {
  check<std::runtime_error>(offsets.scalar_type() == ScalarType::Long && offsets.dim() == 1 && offsets.numel() >= 1, op,
                            "(): offsets must be an int64 vector, one longer than there are segments");
  const Tensor dense = as_contiguous(offsets);
  Backend::check_plan(nullptr, dense, rows.numel(), op);
  return dense;
}

// out[s] = the sum, or mean, of weights[p] * table[rows[p]] over offsets[s] <= p < offsets[s + 1]; zeros for `ignored`.
template <class Backend>
Tensor gather_segment_sum(const Tensor& table, const Tensor& rows, const Tensor& offsets, const std::optional<Tensor>& weights,
                          bool mean, int64_t ignored) {
  constexpr const char* op = "gather_segment_sum";
  const ElementType type = require_table(table, op);
  const Tensor source = as_contiguous(table);
  const Tensor keys = require_rows<Backend>(rows, table, op);
  const Tensor bounds = require_offsets<Backend>(offsets, keys, op);
  const int64_t num_segments = bounds.numel() - 1;
  Tensor out = new_tensor({num_segments, table.size(1)}, table.scalar_type(), table);
  Plan plan;
  plan.permutation = static_cast<const int64_t*>(keys.const_data_ptr());
  plan.offsets = static_cast<const int64_t*>(bounds.const_data_ptr());
  Accumulation problem = make_accumulation(type);
  set_shape(problem, {1, num_segments, table.size(1)}, keys.numel());
  problem.out = out.mutable_data_ptr();
  problem.src = source.const_data_ptr();
  problem.plan = &plan;
  problem.ignored_target = ignored;
  if (mean) problem.reduction = Reduction::kMean;
  if (!weights) {
    Backend::accumulate(problem, out);
    return out;
  }
  check<std::runtime_error>(weights->scalar_type() == ScalarType::Double && weights->dim() == 1 &&
                                weights->numel() == keys.numel() && same_device(*weights, table),
                            op, "(): weights must be a float64 vector of ", keys.numel(), " elements, one for every row named");
  const Tensor factors = as_contiguous(*weights);
  Backend::accumulate_weighted(problem, static_cast<const double*>(factors.const_data_ptr()), out);
  return out;
}

template <class Backend>
std::tuple<Tensor, Tensor> gather_segment_max(const Tensor& table, const Tensor& rows, const Tensor& offsets) {
  constexpr const char* op = "gather_segment_max";
  const ElementType type = require_table(table, op);
  const Tensor source = as_contiguous(table);
  const Tensor keys = require_rows<Backend>(rows, table, op);
  const Tensor bounds = require_offsets<Backend>(offsets, keys, op);
  const Sizes sizes{bounds.numel() - 1, table.size(1)};
  Tensor values = new_tensor(sizes, table.scalar_type(), table);
  Tensor argmax = new_tensor(sizes, ScalarType::Long, table);
  Backend::bag_maximum(type.dtype, values, argmax, source, keys, bounds);
  return {values, argmax};
}

// out[p] = the sum of left[left_rows[p], f] * right[right_rows[p], f] over f; zero where right_rows[p] is `ignored`.
template <class Backend>
Tensor gather_row_products(const Tensor& left, const Tensor& left_rows, const Tensor& right, const Tensor& right_rows,
                           int64_t ignored) {
  constexpr const char* op = "gather_row_products";
  const ElementType type = require_table(left, op);
  require_table(right, op);
  check<Irregular>(left.scalar_type() == right.scalar_type() && same_device(left, right), op,
                   "(): left and right must have one dtype and device");
  check<Irregular>(left.size(1) == right.size(1), op, "(): left and right have rows of different lengths");
  check<Irregular>(left_rows.numel() == right_rows.numel(), op, "(): left_rows and right_rows have different lengths");
  const Tensor a = as_contiguous(left);
  const Tensor b = as_contiguous(right);
  const Tensor a_rows = require_rows<Backend>(left_rows, left, op);
  const Tensor b_rows = require_rows<Backend>(right_rows, right, op);
  Tensor out = new_tensor({a_rows.numel()}, left.scalar_type(), left);
  Backend::row_products(type.dtype, out, a, a_rows, b, b_rows, ignored);
  return out;
}

template <class Backend>
void register_embedding_bag(torch::stable::detail::StableLibrary& library) {
  library.impl("gather_segment_sum", TORCH_BOX(&gather_segment_sum<Backend>));
  library.impl("gather_segment_max", TORCH_BOX(&gather_segment_max<Backend>));
  library.impl("gather_row_products", TORCH_BOX(&gather_row_products<Backend>));
}

}  // namespace reprocuda
