// scatter_add: every element of `src` is added where the element of `index` at the same coordinates says.
//
// An index that is the same along all dimensions but one (expand() of a vector, as graph libraries build it) names rows,
// and is solved as index_add: one key a row, never one an element. scatter_reduce goes the same ways.
#pragma once

#include "accumulate.h"
#include "touched_rows.h"

namespace reprocuda {

inline constexpr const char* kScatterAddSchemas[] = {
    "scatter_add(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "scatter_add_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> ()",
    "scatter_add_out(Tensor self, int dim, Tensor index, Tensor src, Tensor(a!) out) -> ()",
};

inline void check_scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const char* op) {
  check<Irregular>(is_index_dtype(index), op, "(): index must be int32 or int64");
  check<Irregular>(same_dtype(self, src), op, "(): src has another dtype");
  check<Irregular>(same_device(self, index) && same_device(self, src), op, "(): tensors are on different devices");
  if (index.numel() == 0) {
    return;
  }
  const int64_t ndim = std::max<int64_t>(self.dim(), 1);
  check<Irregular>(std::max<int64_t>(index.dim(), 1) == ndim && std::max<int64_t>(src.dim(), 1) == ndim, op,
                   "(): index and src must have as many dimensions as self");
  const auto size = [](const Tensor& tensor, int64_t d) { return tensor.dim() == 0 ? 1 : tensor.size(d); };
  for (int64_t d = 0; d < ndim; ++d) {
    check<Irregular>(size(index, d) <= size(src, d) && (d == dim || size(index, d) <= size(self, d)), op,
                     "(): index is larger than src or self");
  }
}

struct Dimension {
  int64_t size;
  int64_t src_stride;
  int64_t index_stride;
  int64_t out_stride;
};

// The dimensions of the index that hold more than one element, outermost first, neighbours merged where src, index and
// result all step evenly. `dim` itself is always kept, unmerged. Returns its new position.
inline int coalesce(const std::vector<Dimension>& dims, int64_t dim, std::vector<Dimension>& merged) {
  int position = 0;
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    const Dimension& next = dims[d];
    if (d == dim) {
      position = static_cast<int>(merged.size());
      merged.push_back(next);
      continue;
    }
    if (next.size == 1) {
      continue;
    }
    const bool behind_dim = d > dim && position == static_cast<int>(merged.size()) - 1;
    if (!merged.empty() && !behind_dim) {
      Dimension& last = merged.back();
      if (last.src_stride == next.size * next.src_stride && last.index_stride == next.size * next.index_stride &&
          last.out_stride == next.size * next.out_stride) {
        last = {last.size * next.size, next.src_stride, next.index_stride, next.out_stride};
        continue;
      }
    }
    merged.push_back(next);
  }
  return position;
}

inline bool names_whole_rows(const Tensor& out, int64_t dim, const Tensor& index) {
  for (int64_t d = 0; d < index.dim(); ++d) {
    if (d != dim && (index.size(d) != out.size(d) || (index.size(d) != 1 && index.stride(d) != 0))) {
      return false;
    }
  }
  return true;
}

// The targets of an index that names whole rows.
inline Tensor row_targets(const Tensor& index, int64_t dim) {
  const bool is_scalar = index.dim() == 0;
  return as_contiguous(view_as(index, {is_scalar ? 1 : index.size(dim)}, {is_scalar ? 1 : index.stride(dim)}));
}

template <class Backend>
int64_t scatter_rows(const Target& target, ElementType type, int64_t dim, const Tensor& index, const Tensor& keys,
                     const Tensor& src, Combination how) {
  const Tensor& out = target.out();
  const Sizes index_sizes = sizes_of(index);
  const int64_t num_rows = keys.numel();
  const Tensor read = index.dim() == 0 || src.dim() == 0
                          ? src
                          : view_as(src, index_sizes, Sizes(src.strides().begin(), src.strides().end()));
  const Tensor rows = as_contiguous(read);
  Accumulation problem = make_accumulation(type);
  set_combination(problem, how);
  set_shape(problem, extents_around(sizes_of(out), dim), num_rows);
  problem.out = target.out_ptr();
  problem.self = target.self_ptr();
  problem.src = rows.const_data_ptr();
  problem.index = keys.const_data_ptr();
  problem.index_is_int64 = keys.scalar_type() == ScalarType::Long;
  const int64_t bad_row = Backend::accumulate(problem, out);
  if (bad_row < 0 || index.dim() == 0) {
    return bad_row;
  }
  return bad_row * product(index_sizes.data() + dim + 1, index_sizes.data() + index_sizes.size());
}

template <class Backend>
int64_t scatter_elements(const Target& target, ElementType type, int64_t dim, const Tensor& index, const Tensor& src,
                         Combination how, const char* op) {
  const Tensor& out = target.out();
  const Sizes out_strides = contiguous_strides(sizes_of(out));
  std::vector<Dimension> dims;
  for (int64_t d = 0; d < index.dim(); ++d) {
    dims.push_back({index.size(d), src.stride(d), index.stride(d), out_strides[d]});
  }
  std::vector<Dimension> merged;
  ElementAccumulation problem;
  set_combination(problem, how);
  problem.dim = coalesce(dims, dim, merged);
  check<Irregular>(merged.size() <= static_cast<size_t>(kMaxDims), op, "(): too many dimensions");
  problem.ndim = static_cast<int>(merged.size());
  for (int d = 0; d < problem.ndim; ++d) {
    problem.sizes[d] = merged[d].size;
    problem.src_strides[d] = merged[d].src_stride;
    problem.index_strides[d] = merged[d].index_stride;
    problem.out_strides[d] = merged[d].out_stride;
  }
  problem.dtype = type.dtype;
  problem.complex_pairs = type.is_complex;
  problem.out = target.out_ptr();
  problem.self = target.self_ptr();
  problem.src = src.const_data_ptr();
  problem.index = index.const_data_ptr();
  problem.index_is_int64 = index.scalar_type() == ScalarType::Long;
  problem.dim_size = out.size(dim);
  problem.num_out = out.numel();
  problem.num_elements = index.numel();
  return Backend::accumulate(problem, out);
}

template <class Backend>
void scatter_into(Target target, int64_t dim, const Tensor& index, const Tensor& src, Combination how, const char* op) {
  const Tensor& out = target.out();
  const ElementType type = require_element_type(out, op);
  if (index.numel() == 0) {
    if (target.out_ptr() != target.self_ptr()) {
      target.copy_self();
    }
    target.commit();
    return;
  }
  const int64_t bad = names_whole_rows(out, dim, index)
                          ? scatter_rows<Backend>(target, type, dim, index, row_targets(index, dim), src, how)
                          : scatter_elements<Backend>(target, type, dim, index, src, how, op);
  if (bad >= 0) {
    raise<std::runtime_error>(op, "(): index ", index_value(index, bad), " is out of bounds for dimension ", dim,
                              " with size ", out.dim() == 0 ? 1 : out.size(dim), ", at position ", bad);
  }
  target.commit();
}

// The three forms, for any combination.
template <class Backend>
Tensor scatter_fresh(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Combination how, const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  Target target = Target::fresh(self);
  scatter_into<Backend>(target, dim, index, src, how, op);
  return target.out();
}

template <class Backend>
void scatter_in_place(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, Combination how,
                      const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  const Tensor elements = detach_from(index, self, op);
  const Tensor values = detach_from(src, self, op);
  const int64_t num_rows = index.numel() == 0 ? 0 : index.dim() == 0 ? 1 : index.size(dim);
  if (touches_few_rows(self, dim, num_rows) && names_whole_rows(self, dim, index) && elements_are_distinct(self)) {
    const Tensor keys = row_targets(elements, dim);
    // A bad index is left to the way through the whole target, which reports it.
    if (Backend::first_out_of_range(keys, 0, self.size(dim)) < 0) {
      const TouchedRows touched(self, dim, keys);
      scatter_rows<Backend>(Target::in_place(touched.rows(), op), require_element_type(self, op), dim, elements,
                            touched.index(), values, how);
      touched.write_back();
      return;
    }
  }
  scatter_into<Backend>(Target::in_place(self, op), dim, elements, values, how, op);
}

template <class Backend>
void scatter_given(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out, Combination how,
                   const char* op) {
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  scatter_into<Backend>(Target::given(self, out, op), dim, detach_from(index, out, op), detach_from(src, out, op), how, op);
}

template <class Backend>
Tensor scatter_add(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  return scatter_fresh<Backend>(self, dim, index, src, {}, "scatter_add");
}

template <class Backend>
void scatter_add_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  scatter_in_place<Backend>(self, dim, index, src, {}, "scatter_add_");
}

template <class Backend>
void scatter_add_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  scatter_given<Backend>(self, dim, index, src, out, {}, "scatter_add");
}

template <class Backend>
void register_scatter_add(torch::stable::detail::StableLibrary& library) {
  library.impl("scatter_add", TORCH_BOX(&scatter_add<Backend>));
  library.impl("scatter_add_", TORCH_BOX(&scatter_add_<Backend>));
  library.impl("scatter_add_out", TORCH_BOX(&scatter_add_out<Backend>));
}

}  // namespace reprocuda
