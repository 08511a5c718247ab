// SegmentPlan's operators: a stable grouping of rows by target, built once and used by many sums.
#pragma once

#include "index_add.h"
#include "text.h"

namespace reprocuda {

inline constexpr const char* kSegmentSchemas[] = {
    "segment_plan(Tensor index, SymInt num_segments) -> (Tensor permutation, Tensor offsets)",
    "segment_sum(Tensor src, Tensor? permutation, Tensor offsets) -> Tensor",
    "index_add_planned(Tensor self, int dim, Tensor? permutation, Tensor offsets, Tensor source, float alpha=1, "
    "float alpha_imag=0, SymInt alpha_int=1) -> Tensor",
    "index_add_planned_(Tensor(a!) self, int dim, Tensor? permutation, Tensor offsets, Tensor source, float alpha=1, "
    "float alpha_imag=0, SymInt alpha_int=1) -> ()",
    "index_reduce_planned(Tensor self, int dim, Tensor? permutation, Tensor offsets, Tensor source, str reduce, "
    "bool include_self=True) -> Tensor",
};

template <class Backend>
std::tuple<Tensor, Tensor> segment_plan(const Tensor& index, int64_t num_segments) {
  constexpr const char* op = "segment_plan";
  check<std::runtime_error>(is_index_dtype(index) && index.dim() == 1, op, "(): index must be an int32 or int64 vector");
  check<std::runtime_error>(num_segments >= 0, op, "(): num_segments must not be negative, got ", num_segments);
  const Tensor keys = as_contiguous(index);
  Tensor permutation = new_tensor({keys.numel()}, ScalarType::Long, keys);
  Tensor offsets = new_tensor({num_segments + 1}, ScalarType::Long, keys);
  const int64_t bad =
      Backend::build_plan(keys, num_segments, static_cast<int64_t*>(permutation.mutable_data_ptr()),
                          static_cast<int64_t*>(offsets.mutable_data_ptr()));
  if (bad >= 0) {
    raise_index_out_of_range(op, keys, bad, 0, num_segments, /*as_index_error=*/true);
  }
  return {permutation, offsets};
}

// A plan as the backends read it. What can be checked without a device synchronisation is: shapes everywhere, and on the CPU
// that offsets rise and every entry of the permutation names a row. A row named twice is added twice.
template <class Backend>
class PlanArguments {
 public:
  PlanArguments(const std::optional<Tensor>& permutation, const Tensor& offsets, int64_t num_rows, const char* op)
      : permutation_(permutation ? std::optional<Tensor>(as_contiguous(*permutation)) : std::nullopt),
        offsets_(as_contiguous(offsets)) {
    check<std::runtime_error>(offsets.scalar_type() == ScalarType::Long && offsets.dim() == 1 && offsets.numel() >= 1, op,
                              "(): offsets must be an int64 vector of num_segments + 1 elements");
    if (permutation_) {
      check<std::runtime_error>(permutation_->scalar_type() == ScalarType::Long && permutation_->dim() == 1 &&
                                    permutation_->numel() == num_rows && same_device(*permutation_, offsets_),
                                op, "(): permutation must be an int64 vector of ", num_rows,
                                " elements, one for every row, beside offsets");
    }
    Backend::check_plan(permutation_ ? &*permutation_ : nullptr, offsets_, num_rows, op);
    plan_.permutation = permutation_ ? static_cast<const int64_t*>(permutation_->const_data_ptr()) : nullptr;
    plan_.offsets = static_cast<const int64_t*>(offsets_.const_data_ptr());
  }

  const Plan* plan() const { return &plan_; }
  int64_t num_segments() const { return offsets_.numel() - 1; }

 private:
  std::optional<Tensor> permutation_;
  Tensor offsets_;
  Plan plan_;
};

template <class Backend>
Tensor segment_sum(const Tensor& src, const std::optional<Tensor>& permutation, const Tensor& offsets) {
  constexpr const char* op = "segment_sum";
  check<std::runtime_error>(src.dim() >= 1, op, "(): src must have at least one dimension, the rows");
  check<std::runtime_error>(same_device(src, offsets), op, "(): src and offsets are on different devices");
  check<std::runtime_error>(element_type(src.scalar_type()).has_value(), op, "(): dtype of src not supported");
  const ElementType type = *element_type(src.scalar_type());
  const PlanArguments<Backend> arguments(permutation, offsets, src.size(0), op);
  const Tensor rows = as_contiguous(src);
  Sizes sizes = sizes_of(src);
  sizes[0] = arguments.num_segments();
  Tensor out = new_tensor(sizes, src.scalar_type(), src);
  Accumulation problem = make_accumulation(type);
  set_shape(problem, extents_around(sizes, 0), src.size(0));
  problem.out = out.mutable_data_ptr();
  problem.src = rows.const_data_ptr();
  problem.plan = arguments.plan();
  Backend::accumulate(problem, out);
  return out;
}

template <class Backend>
void index_rows_planned(Target target, int64_t dim, const std::optional<Tensor>& permutation, const Tensor& offsets,
                        const Tensor& source, Accumulation problem, const char* op) {
  const Tensor& out = target.out();
  const int64_t num_rows = source.dim() == 0 ? 1 : source.size(dim);
  const PlanArguments<Backend> arguments(permutation, offsets, num_rows, op);
  const Tensor rows = as_contiguous(source);
  set_shape(problem, extents_around(sizes_of(out), dim), num_rows);
  check<std::runtime_error>(arguments.num_segments() == problem.num_targets, op, "(): the plan has ",
                            arguments.num_segments(), " segments, dimension ", dim, " of self has size ",
                            problem.num_targets);
  problem.out = target.out_ptr();
  problem.self = target.self_ptr();
  problem.src = rows.const_data_ptr();
  problem.plan = arguments.plan();
  Backend::accumulate(problem, out);
  target.commit();
}

inline Accumulation planned_sum(const Tensor& self, double alpha, double alpha_imag, int64_t alpha_int, const char* op) {
  const ElementType type = require_element_type(self, op);
  return make_accumulation(type, make_alpha(type, alpha, alpha_imag, alpha_int, op));
}

inline void check_planned_source(const Tensor& self, int64_t dim, const Tensor& source, const char* op) {
  check<std::runtime_error>(self.scalar_type() == source.scalar_type() && same_device(self, source), op,
                            "(): source must have the dtype and device of self");
  Sizes expected = sizes_of(self);
  check<std::runtime_error>(source.dim() == self.dim(), op, "(): source must have ", self.dim(), " dimensions, got ",
                            source.dim());
  for (int64_t d = 0; d < self.dim(); ++d) {
    check<std::runtime_error>(d == dim || source.size(d) == expected[d], op, "(): source has size ", source.size(d),
                              " in dimension ", d, ", self has ", expected[d]);
  }
}

template <class Backend>
Tensor index_add_planned(const Tensor& self, int64_t dim, const std::optional<Tensor>& permutation, const Tensor& offsets,
                         const Tensor& source, double alpha, double alpha_imag, int64_t alpha_int) {
  constexpr const char* op = "index_add";
  dim = wrap_dim(dim, self.dim(), op);
  check_planned_source(self, dim, source, op);
  Target target = Target::fresh(self);
  const Accumulation problem = planned_sum(self, alpha, alpha_imag, alpha_int, op);
  index_rows_planned<Backend>(target, dim, permutation, offsets, source, problem, op);
  return target.out();
}

template <class Backend>
void index_add_planned_(const Tensor& self, int64_t dim, const std::optional<Tensor>& permutation, const Tensor& offsets,
                        const Tensor& source, double alpha, double alpha_imag, int64_t alpha_int) {
  constexpr const char* op = "index_add_";
  dim = wrap_dim(dim, self.dim(), op);
  check_planned_source(self, dim, source, op);
  const Accumulation problem = planned_sum(self, alpha, alpha_imag, alpha_int, op);
  const Tensor values = detach_from(source, self, op);
  index_rows_planned<Backend>(Target::in_place(self, op), dim, permutation, offsets, values, problem, op);
}

// Of floats. CUDA has no extremes here: its kernel for them reads an index.
template <class Backend>
Tensor index_reduce_planned(const Tensor& self, int64_t dim, const std::optional<Tensor>& permutation, const Tensor& offsets,
                            const Tensor& source, StringHandle reduce, bool include_self) {
  constexpr const char* op = "index_reduce_planned";
  const std::string reduction = take_string(reduce);
  dim = wrap_dim(dim, self.dim(), op);
  check_planned_source(self, dim, source, op);
  const ElementType type = require_element_type(self, op);
  check<std::runtime_error>(is_floating_point(type.dtype) && !type.is_complex, op, "(): self must be of a real floating dtype");
  Accumulation problem = make_accumulation(type);
  set_combination(problem, combination(self, reduction, include_self, op));
  Target target = Target::fresh(self);
  index_rows_planned<Backend>(target, dim, permutation, offsets, source, problem, op);
  return target.out();
}

template <class Backend>
void register_segment(torch::stable::detail::StableLibrary& library) {
  library.impl("segment_plan", TORCH_BOX(&segment_plan<Backend>));
  library.impl("segment_sum", TORCH_BOX(&segment_sum<Backend>));
  library.impl("index_add_planned", TORCH_BOX(&index_add_planned<Backend>));
  library.impl("index_add_planned_", TORCH_BOX(&index_add_planned_<Backend>));
  library.impl("index_reduce_planned", TORCH_BOX(&index_reduce_planned<Backend>));
}

}  // namespace reprocuda
