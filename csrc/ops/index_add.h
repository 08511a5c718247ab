// index_add: self plus the rows of `source` at the positions `index` names, along one dimension.
#pragma once

#include "accumulate.h"
#include "touched_rows.h"

namespace reprocuda {

inline constexpr const char* kIndexAddSchemas[] = {
    "index_add(Tensor self, int dim, Tensor index, Tensor source, float alpha=1, float alpha_imag=0, "
    "SymInt alpha_int=1) -> Tensor",
    "index_add_(Tensor(a!) self, int dim, Tensor index, Tensor source, float alpha=1, float alpha_imag=0, "
    "SymInt alpha_int=1) -> ()",
    "index_add_out(Tensor self, int dim, Tensor index, Tensor source, float alpha, float alpha_imag, SymInt alpha_int, "
    "Tensor(a!) out) -> ()",
};

// torch: a bad index is an IndexError, but for index_add with int64 and without a factor of what is no vector a
// RuntimeError.
inline bool is_index_error(const Tensor& self, const Tensor& index, Reduction reduction, const Alpha& alpha) {
  return reduction != Reduction::kSum || self.dim() <= 1 || index.scalar_type() == ScalarType::Int || !alpha.is_one;
}

[[noreturn]] inline void raise_index_out_of_range(const char* op, const Tensor& index, int64_t position, int64_t dim,
                                                  int64_t size, bool as_index_error) {
  const int64_t value = index_value(index, position);
  const auto raise_as = [&]<class Error>(std::type_identity<Error>) {
    raise<Error>(op, "(): index ", value, " is out of bounds for dimension ", dim, " with size ", size, ", at position ",
                 position);
  };
  if (as_index_error) {
    raise_as(std::type_identity<std::out_of_range>{});
  }
  raise_as(std::type_identity<std::runtime_error>{});
  __builtin_unreachable();
}

// What torch accepts; anything else is for torch to name.
inline void check_index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const char* op) {
  check<Irregular>(is_index_dtype(index) && index.dim() <= 1, op, "(): index must be an int32 or int64 vector");
  check<Irregular>(self.scalar_type() == source.scalar_type(), op, "(): source has another dtype");
  check<Irregular>(same_device(self, index) && same_device(self, source), op, "(): tensors are on different devices");
  check<Irregular>(self.dim() == source.dim(), op, "(): source has another number of dimensions");
  const auto self_sizes = self.sizes();
  const auto source_sizes = source.sizes();
  for (int64_t d = 0; d < self.dim(); ++d) {
    check<Irregular>(d == dim || self_sizes[d] == source_sizes[d], op, "(): source has another shape");
  }
  const int64_t num_rows = source.dim() == 0 ? 1 : source_sizes[dim];
  check<Irregular>(index.numel() == num_rows, op, "(): index and source have different lengths");
}

template <class Backend>
void index_rows_into(Target target, int64_t dim, const Tensor& index, const Tensor& source, const Alpha& alpha, Combination how,
                     const char* op) {
  const Tensor& out = target.out();
  const ElementType type = require_element_type(out, op);
  const Tensor rows = as_contiguous(source);
  const Tensor keys = as_contiguous(index);
  Accumulation problem = make_accumulation(type, alpha);
  set_combination(problem, how);
  set_shape(problem, extents_around(sizes_of(out), dim), index.numel());
  problem.out = target.out_ptr();
  problem.self = target.self_ptr();
  problem.src = rows.const_data_ptr();
  problem.index = keys.const_data_ptr();
  problem.index_is_int64 = keys.scalar_type() == ScalarType::Long;
  const int64_t bad = Backend::accumulate(problem, out);
  if (bad >= 0) {
    raise_index_out_of_range(op, index, bad, dim, problem.num_targets, is_index_error(out, index, how.reduction, alpha));
  }
  target.commit();
}

// The three forms, for any combination.
template <class Backend>
Tensor index_rows_fresh(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Alpha& alpha,
                        Combination how, const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_index_add(self, dim, index, source, op);
  Target target = Target::fresh(self);
  index_rows_into<Backend>(target, dim, index, source, alpha, how, op);
  return target.out();
}

template <class Backend>
void index_rows_in_place(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Alpha& alpha,
                         Combination how, const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_index_add(self, dim, index, source, op);
  const Tensor keys = detach_from(index, self, op);
  const Tensor rows = detach_from(source, self, op);
  if (touches_few_rows(self, dim, index.numel()) && elements_are_distinct(self)) {
    const Tensor dense_keys = as_contiguous(keys);
    const int64_t bad = Backend::first_out_of_range(dense_keys, 0, self.size(dim));
    if (bad >= 0) {
      raise_index_out_of_range(op, dense_keys, bad, dim, self.size(dim), is_index_error(self, index, how.reduction, alpha));
    }
    const TouchedRows touched(self, dim, dense_keys);
    index_rows_into<Backend>(Target::in_place(touched.rows(), op), dim, touched.index(), rows, alpha, how, op);
    touched.write_back();
    return;
  }
  index_rows_into<Backend>(Target::in_place(self, op), dim, keys, rows, alpha, how, op);
}

template <class Backend>
void index_rows_given(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out,
                      const Alpha& alpha, Combination how, const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_index_add(self, dim, index, source, op);
  index_rows_into<Backend>(Target::given(self, out, op), dim, detach_from(index, out, op), detach_from(source, out, op), alpha,
                           how, op);
}

template <class Backend>
Tensor index_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, double alpha, double alpha_imag,
                 int64_t alpha_int) {
  constexpr const char* op = "index_add";
  const Alpha factor = make_alpha(require_element_type(self, op), alpha, alpha_imag, alpha_int, op);
  return index_rows_fresh<Backend>(self, dim, index, source, factor, {}, op);
}

template <class Backend>
void index_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, double alpha, double alpha_imag,
                int64_t alpha_int) {
  constexpr const char* op = "index_add_";
  const Alpha factor = make_alpha(require_element_type(self, op), alpha, alpha_imag, alpha_int, op);
  index_rows_in_place<Backend>(self, dim, index, source, factor, {}, op);
}

template <class Backend>
void index_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, double alpha,
                   double alpha_imag, int64_t alpha_int, const Tensor& out) {
  constexpr const char* op = "index_add";
  const Alpha factor = make_alpha(require_element_type(self, op), alpha, alpha_imag, alpha_int, op);
  index_rows_given<Backend>(self, dim, index, source, out, factor, {}, op);
}

template <class Backend>
void register_index_add(torch::stable::detail::StableLibrary& library) {
  library.impl("index_add", TORCH_BOX(&index_add<Backend>));
  library.impl("index_add_", TORCH_BOX(&index_add_<Backend>));
  library.impl("index_add_out", TORCH_BOX(&index_add_out<Backend>));
}

}  // namespace reprocuda
