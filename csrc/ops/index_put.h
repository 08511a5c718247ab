// index_put with accumulate=True: `values` added at the positions that several index tensors name together.
//
// The indexed dimensions are seen as one; where they are neighbours that needs no copy. Negative indices count from the end.
#pragma once

#include "../problems/linearization.h"
#include "accumulate.h"
#include "touched_rows.h"

namespace reprocuda {

inline constexpr const char* kIndexPutSchemas[] = {
    "index_put(Tensor self, Tensor[] indices, int[] dims, Tensor values) -> Tensor",
    "index_put_(Tensor(a!) self, Tensor[] indices, int[] dims, Tensor values) -> ()",
    "index_put_rows_(Tensor(a!) self, Tensor index, Tensor values) -> ()",
};

// Sizes of all tensors broadcast together, by torch's rule; Irregular when they do not.
inline Sizes broadcast_sizes(const std::vector<Tensor>& tensors, const char* op) {
  Sizes result;
  for (const Tensor& tensor : tensors) {
    const Sizes sizes = sizes_of(tensor);
    if (sizes.size() > result.size()) {
      result.insert(result.begin(), sizes.size() - result.size(), 1);
    }
    for (size_t back = 1; back <= sizes.size(); ++back) {
      int64_t& size = result[result.size() - back];
      const int64_t other = sizes[sizes.size() - back];
      check<Irregular>(size == other || size == 1 || other == 1, op, "(): the index tensors do not broadcast together");
      size = size == 1 ? other : size;
    }
  }
  return result;
}

inline Tensor expand(const Tensor& tensor, const Sizes& sizes, const char* op) {
  check<Irregular>(static_cast<size_t>(tensor.dim()) <= sizes.size(), op, "(): values have too many dimensions");
  Sizes strides(sizes.size(), 0);
  const size_t missing = sizes.size() - static_cast<size_t>(tensor.dim());
  for (size_t d = missing; d < sizes.size(); ++d) {
    const int64_t size = tensor.size(static_cast<int64_t>(d - missing));
    check<Irregular>(size == sizes[d] || size == 1, op, "(): values do not broadcast to the indexed shape");
    strides[d] = size == 1 ? 0 : tensor.stride(static_cast<int64_t>(d - missing));
  }
  return view_as(tensor, sizes, strides);
}

inline void check_index_put(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                            const Tensor& values, const char* op) {
  check<Irregular>(same_dtype(self, values), op, "(): values have another dtype");
  check<Irregular>(!indices.empty() && indices.size() == dims.size() && indices.size() <= kMaxDims, op,
                   "(): needs one index tensor for every indexed dimension");
  check<Irregular>(same_device(self, values), op, "(): self and values are on different devices");
  for (size_t k = 0; k < dims.size(); ++k) {
    check<Irregular>(dims[k] >= 0 && dims[k] < self.dim() && (k == 0 || dims[k] > dims[k - 1]), op,
                     "(): the indexed dimensions must be increasing");
    check<Irregular>(is_index_dtype(indices[k]) && same_device(self, indices[k]), op,
                     "(): indices must be int32 or int64, on the device of self");
  }
}

// self with the indexed dimensions first, as a view.
inline Tensor indexed_dims_first(const Tensor& self, const std::vector<int64_t>& dims) {
  Sizes order(dims);
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) {
      order.push_back(d);
    }
  }
  Sizes sizes;
  Sizes strides;
  for (const int64_t d : order) {
    sizes.push_back(self.size(d));
    strides.push_back(self.stride(d));
  }
  return view_as(self, sizes, strides);
}

inline bool are_neighbours(const std::vector<int64_t>& dims) {
  return dims.back() - dims.front() == static_cast<int64_t>(dims.size()) - 1;
}

inline IndexLinearization make_linearization(const std::vector<Tensor>& indices, const Sizes& shape, const int64_t* dim_sizes,
                                             const char* op) {
  check<Irregular>(shape.size() <= static_cast<size_t>(kMaxDims), op, "(): the index tensors have too many dimensions");
  IndexLinearization problem;
  problem.num_indices = static_cast<int>(indices.size());
  problem.ndim = static_cast<int>(shape.size());
  std::copy(shape.begin(), shape.end(), problem.sizes);
  problem.num_elements = product(shape.data(), shape.data() + shape.size());
  int64_t multiplier = 1;
  for (int k = problem.num_indices; k-- > 0;) {
    const Tensor index = expand(indices[k], shape, op);
    problem.indices[k] = index.const_data_ptr();
    problem.is_int64[k] = index.scalar_type() == ScalarType::Long;
    const auto strides = index.strides();
    std::copy(strides.begin(), strides.end(), problem.strides[k]);
    problem.dim_sizes[k] = dim_sizes[k];
    problem.multipliers[k] = multiplier;
    multiplier *= dim_sizes[k];
  }
  return problem;
}

[[noreturn]] inline void raise_bad_index(const std::vector<Tensor>& indices, const Sizes& shape,
                                         const std::vector<int64_t>& dims, const int64_t* dim_sizes, int64_t position,
                                         const char* op) {
  for (size_t k = 0; k < indices.size(); ++k) {
    const int64_t value = index_value(expand(indices[k], shape, op), position);
    check<std::out_of_range>(value >= -dim_sizes[k] && value < dim_sizes[k], op, "(): index ", value,
                             " is out of bounds for dimension ", dims[k], " with size ", dim_sizes[k], ", at position ",
                             position);
  }
  raise<std::out_of_range>(op, "(): an index is out of bounds at position ", position);
}

// `target` holds the indexed dimensions side by side, starting at `first`.
template <class Backend>
void index_put_into(Target target, int64_t first, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                    const Tensor& values, const char* op) {
  const Tensor& out = target.out();
  const ElementType type = require_element_type(out, op);
  const Sizes out_sizes = sizes_of(out);
  const Sizes shape = broadcast_sizes(indices, op);
  const int64_t last = first + static_cast<int64_t>(dims.size());
  Sizes values_sizes(out_sizes.begin(), out_sizes.begin() + first);
  values_sizes.insert(values_sizes.end(), shape.begin(), shape.end());
  values_sizes.insert(values_sizes.end(), out_sizes.begin() + last, out_sizes.end());
  const Tensor rows = as_contiguous(expand(values, values_sizes, op));

  Accumulation problem = make_accumulation(type);
  const Extents extents{product(out_sizes.data(), out_sizes.data() + first),
                        product(out_sizes.data() + first, out_sizes.data() + last),
                        product(out_sizes.data() + last, out_sizes.data() + out_sizes.size())};
  set_shape(problem, extents, product(shape.data(), shape.data() + shape.size()));
  problem.out = target.out_ptr();
  problem.self = target.self_ptr();
  problem.src = rows.const_data_ptr();
  const auto accumulate_by = [&](const Tensor& keys) {
    problem.index = keys.const_data_ptr();
    problem.index_is_int64 = keys.scalar_type() == ScalarType::Long;
    return Backend::accumulate(problem, out);
  };

  // A single index is its own key unless some entry is negative. The CPU reports that one before it writes anything, so
  // there it may just be tried.
  if (indices.size() == 1 && out.is_cpu() && accumulate_by(as_contiguous(indices.front())) < 0) {
    target.commit();
    return;
  }
  IndexLinearization linearization = make_linearization(indices, shape, out_sizes.data() + first, op);
  Tensor keys = new_tensor({linearization.num_elements}, ScalarType::Long, out);
  linearization.keys = static_cast<int64_t*>(keys.mutable_data_ptr());
  const int64_t bad = Backend::linearize(linearization, out);
  if (bad >= 0) {
    raise_bad_index(indices, shape, dims, out_sizes.data() + first, bad, op);
  }
  accumulate_by(keys);
  target.commit();
}

// In place, for any position of the indexed dimensions.
template <class Backend>
void index_put_any(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                   const Tensor& values, const char* op) {
  if (are_neighbours(dims)) {
    index_put_into<Backend>(Target::in_place(self, op), dims.front(), indices, dims, values, op);
  } else {
    index_put_into<Backend>(Target::in_place(indexed_dims_first(self, dims), op), 0, indices, dims, values, op);
  }
}

template <class Backend>
Tensor index_put(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                 const Tensor& values) {
  constexpr const char* op = "index_put";
  check_index_put(self, indices, dims, values, op);
  if (are_neighbours(dims)) {
    Target target = Target::fresh(self);
    index_put_into<Backend>(target, dims.front(), indices, dims, values, op);
    return target.out();
  }
  Tensor out = new_tensor(sizes_of(self), self.scalar_type(), self);
  torch::stable::copy_(out, self);
  index_put_any<Backend>(out, indices, dims, values, op);
  return out;
}

template <class Backend>
void index_put_(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                const Tensor& values) {
  constexpr const char* op = "index_put_";
  check_index_put(self, indices, dims, values, op);
  std::vector<Tensor> separate;
  for (const Tensor& index : indices) {
    separate.push_back(detach_from(index, self, op));
  }
  const Tensor read = detach_from(values, self, op);
  if (indices.size() == 1 && touches_few_rows(self, dims.front(), indices.front().numel()) && elements_are_distinct(self)) {
    const Tensor& index = separate.front();
    const int64_t size = self.size(dims.front());
    const Sizes shape = sizes_of(index);
    IndexLinearization linearization = make_linearization(separate, shape, &size, op);
    Tensor keys = new_tensor({index.numel()}, ScalarType::Long, self);
    linearization.keys = static_cast<int64_t*>(keys.mutable_data_ptr());
    const int64_t bad = Backend::linearize(linearization, self);
    if (bad >= 0) {
      raise_bad_index(separate, shape, dims, &size, bad, op);
    }
    const TouchedRows touched(self, dims.front(), keys);
    const Tensor shaped = view_as(touched.index(), shape, contiguous_strides(shape));
    index_put_into<Backend>(Target::in_place(touched.rows(), op), dims.front(), {shaped}, dims, read, op);
    touched.write_back();
    return;
  }
  index_put_any<Backend>(self, separate, dims, read, op);
}

// index_put_ with one index, in the first dimension: the commonest case, without lists, which alone cost a caller from
// Python a microsecond.
template <class Backend>
void index_put_rows_(const Tensor& self, const Tensor& index, const Tensor& values) {
  index_put_<Backend>(self, {index}, {0}, values);
}

template <class Backend>
void register_index_put(torch::stable::detail::StableLibrary& library) {
  library.impl("index_put", TORCH_BOX(&index_put<Backend>));
  library.impl("index_put_", TORCH_BOX(&index_put_<Backend>));
  library.impl("index_put_rows_", TORCH_BOX(&index_put_rows_<Backend>));
}

}  // namespace reprocuda
