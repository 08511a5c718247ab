// Embedding bags: rows of a table gathered into bags, summed, averaged or compared without a copy of what is gathered. Their
// derivatives are the same sums with rows and bags exchanged, and products of row by row.
#pragma once

#include "../problems/bags.h"
#include "scatter_add.h"
#include "segment.h"

namespace reprocuda {

inline constexpr const char* kEmbeddingBagSchemas[] = {
    "gather_segment_sum(Tensor table, Tensor rows, Tensor offsets, Tensor? weights, bool mean) -> Tensor",
    "gather_segment_max(Tensor table, Tensor rows, Tensor offsets) -> (Tensor values, Tensor argmax)",
    "gather_segment_max_backward(Tensor grad, Tensor argmax, SymInt num_rows) -> Tensor",
    "gather_row_products(Tensor left, Tensor left_rows, Tensor right, Tensor right_rows, SymInt ignored=-1) -> Tensor",
};

// All of them serve embedding_bag, whose name is the one that the user knows.
inline constexpr const char* kEmbeddingBag = "embedding_bag";

inline ElementType require_table(const Tensor& table, const char* op) {
  const ElementType type = require_element_type(table, op);
  check<Irregular>(is_floating_point(type.dtype) && !type.is_complex, op, "(): the table must be real floating point");
  check<Irregular>(table.dim() == 2, op, "(): the table must be a matrix");
  return type;
}

// An int64 vector whose entries are to name rows of a table.
inline Tensor require_row_numbers(const Tensor& rows, const Tensor& table, const char* op) {
  check<Irregular>(rows.scalar_type() == ScalarType::Long && rows.dim() == 1 && same_device(rows, table), op,
                   "(): rows must be an int64 vector on the device of the table");
  return as_contiguous(rows);
}

// `bad`: the first position of a row that the table has not, or negative.
inline void check_bad_row(const Tensor& rows, int64_t bad, const Tensor& table, const char* op) {
  if (bad >= 0) {
    raise<std::runtime_error>(op, "(): index ", index_value(rows, bad), " is out of bounds for a table of ", table.size(0),
                              " rows, at position ", bad);
  }
}

// The same vector, whose entries name rows of the table.
template <class Backend>
Tensor require_rows(const Tensor& rows, const Tensor& table, const char* op) {
  const Tensor dense = require_row_numbers(rows, table, op);
  check_bad_row(dense, Backend::first_out_of_range(dense, 0, table.size(0)), table, op);
  return dense;
}

// What bags name, and the memory of it.
struct OwnedBags {
  Tensor table;
  Tensor rows;
  Tensor offsets;

  void describe(BagRows& bags) const {
    bags.table = table.const_data_ptr();
    bags.num_table_rows = table.size(0);
    bags.features = table.size(1);
    bags.rows = static_cast<const int64_t*>(rows.const_data_ptr());
    bags.num_rows = rows.numel();
    bags.offsets = static_cast<const int64_t*>(offsets.const_data_ptr());
    bags.num_bags = offsets.numel() - 1;
  }
};

// Whether `rows` name rows of the table is left to be seen.
template <class Backend>
OwnedBags require_bags(const Tensor& table, const Tensor& rows, const Tensor& offsets, const char* op) {
  require_table(table, op);
  check<Irregular>(offsets.scalar_type() == ScalarType::Long && offsets.dim() == 1 && offsets.numel() >= 1 &&
                       same_device(offsets, table),
                   op, "(): offsets must be an int64 vector, one longer than there are bags");
  const Tensor bounds = as_contiguous(offsets);
  Backend::check_plan(nullptr, bounds, rows.numel(), op);
  return {as_contiguous(table), require_row_numbers(rows, table, op), bounds};
}

// out[s] = the sum, or mean, of weights[p] * table[rows[p]] over offsets[s] <= p < offsets[s + 1].
template <class Backend>
Tensor gather_segment_sum(const Tensor& table, const Tensor& rows, const Tensor& offsets, const std::optional<Tensor>& weights,
                          bool mean) {
  constexpr const char* op = kEmbeddingBag;
  const OwnedBags bags = require_bags<Backend>(table, rows, offsets, op);
  BagSum problem;
  bags.describe(problem);
  problem.dtype = require_element_type(table, op).dtype;
  problem.mean = mean;
  std::optional<Tensor> factors;
  if (weights) {
    problem.weights_are_wide = weights->scalar_type() == ScalarType::Double;
    const bool has_dtype = problem.weights_are_wide || weights->scalar_type() == table.scalar_type();
    const bool has_shape = weights->dim() == 1 && weights->numel() == rows.numel();
    check<std::runtime_error>(has_dtype && has_shape && same_device(*weights, table), op, "(): weights must be a vector of ",
                              rows.numel(), " elements, one for every row named, of the dtype of the table or float64");
    factors = as_contiguous(*weights);
    problem.weights = factors->const_data_ptr();
  }
  Tensor out = new_tensor({problem.num_bags, problem.features}, table.scalar_type(), table);
  problem.out = out.mutable_data_ptr();
  check_bad_row(bags.rows, Backend::bag_sum(problem, out), table, op);  // seen on the way
  return out;
}

template <class Backend>
std::tuple<Tensor, Tensor> gather_segment_max(const Tensor& table, const Tensor& rows, const Tensor& offsets) {
  constexpr const char* op = kEmbeddingBag;
  const OwnedBags bags = require_bags<Backend>(table, rows, offsets, op);
  check_bad_row(bags.rows, Backend::first_out_of_range(bags.rows, 0, table.size(0)), table, op);
  BagMaximum problem;
  bags.describe(problem);
  problem.dtype = require_element_type(table, op).dtype;
  const Sizes sizes{problem.num_bags, problem.features};
  Tensor values = new_tensor(sizes, table.scalar_type(), table);
  Tensor argmax = new_tensor(sizes, ScalarType::Long, table);
  problem.out = values.mutable_data_ptr();
  problem.argmax = static_cast<int64_t*>(argmax.mutable_data_ptr());
  Backend::bag_maximum(problem, values);
  return {values, argmax};
}

// Zeros of a sum's result, in memory that is not written yet. A backend of the CPU asks for huge pages there, which torch does not:
// most of a large table's gradient is zeros, and a fault for each of its small pages would cost more than the sums.
template <class Backend>
void fill_zeros(Tensor& out, ElementType type) {
  if (!out.is_cpu()) {
    torch::stable::zero_(out);
    return;
  }
  Accumulation nothing = make_accumulation(type);
  nothing.out = out.mutable_data_ptr();
  nothing.num_targets = out.numel();
  Backend::accumulate(nothing, out);
}

// out[argmax[s, f], f] = 0 + the sum of grad[s, f] over all such s. Where argmax is `num_rows`, the gradient goes nowhere.
template <class Backend>
Tensor gather_segment_max_backward(const Tensor& grad, const Tensor& argmax, int64_t num_rows) {
  constexpr const char* op = kEmbeddingBag;
  const ElementType type = require_table(grad, op);
  check<Irregular>(num_rows >= 0, op, "(): num_rows must not be negative, got ", num_rows);
  check<Irregular>(argmax.scalar_type() == ScalarType::Long && sizes_of(argmax) == sizes_of(grad) && same_device(argmax, grad), op,
                   "(): argmax must be int64, of the shape and on the device of grad");
  Tensor sums = new_tensor({num_rows + 1, grad.size(1)}, grad.scalar_type(), grad);  // the last row is nowhere
  fill_zeros<Backend>(sums, type);
  scatter_into<Backend>(Target::in_place(sums, op), 0, argmax, grad, {}, op);
  return torch::stable::narrow(sums, 0, 0, num_rows);
}

// out[p] = the sum of left[left_rows[p], f] * right[right_rows[p], f] over f; zero where right_rows[p] is `ignored`.
template <class Backend>
Tensor gather_row_products(const Tensor& left, const Tensor& left_rows, const Tensor& right, const Tensor& right_rows,
                           int64_t ignored) {
  constexpr const char* op = kEmbeddingBag;
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
  RowProducts problem;
  problem.dtype = type.dtype;
  problem.out = out.mutable_data_ptr();
  problem.left = a.const_data_ptr();
  problem.left_rows = static_cast<const int64_t*>(a_rows.const_data_ptr());
  problem.right = b.const_data_ptr();
  problem.right_rows = static_cast<const int64_t*>(b_rows.const_data_ptr());
  problem.num_left = left.size(0);
  problem.num_right = right.size(0);
  problem.ignored = ignored;
  problem.num_products = out.numel();
  problem.features = left.size(1);
  Backend::row_products(problem, out);
  return out;
}

template <class Backend>
void register_embedding_bag(torch::stable::detail::StableLibrary& library) {
  library.impl("gather_segment_sum", TORCH_BOX(&gather_segment_sum<Backend>));
  library.impl("gather_segment_max", TORCH_BOX(&gather_segment_max<Backend>));
  library.impl("gather_segment_max_backward", TORCH_BOX(&gather_segment_max_backward<Backend>));
  library.impl("gather_row_products", TORCH_BOX(&gather_row_products<Backend>));
}

}  // namespace reprocuda
