// Plain writes through an index: scatter, index_copy, index_put with accumulate=False. Of several elements aimed at one
// place the last in source order stands.
//
// Bits are copied, so every dtype of plain memory is served, and the target may have any strides: it is never copied.
#pragma once

#include "../problems/overwrite.h"
#include "accumulate.h"
#include "index_put.h"
#include "scatter_add.h"

namespace reprocuda {

inline constexpr const char* kOverwriteSchemas[] = {
    "scatter(Tensor self, int dim, Tensor index, Tensor src) -> Tensor",
    "scatter_(Tensor(a!) self, int dim, Tensor index, Tensor src) -> ()",
    "scatter_out(Tensor self, int dim, Tensor index, Tensor src, Tensor(a!) out) -> ()",
    "index_copy(Tensor self, int dim, Tensor index, Tensor source) -> Tensor",
    "index_copy_(Tensor(a!) self, int dim, Tensor index, Tensor source) -> ()",
    "index_copy_out(Tensor self, int dim, Tensor index, Tensor source, Tensor(a!) out) -> ()",
    "index_put_overwrite(Tensor self, Tensor[] indices, int[] dims, Tensor values) -> Tensor",
    "index_put_overwrite_(Tensor(a!) self, Tensor[] indices, int[] dims, Tensor values) -> ()",
};

// A dense copy that will be written into.
inline Tensor fresh_copy(const Tensor& self) {
  Tensor out = new_tensor(sizes_of(self), dtype_number(self), self);
  torch::stable::copy_(out, self);
  return out;
}

inline void check_written(const Tensor& out, const char* op) {
  check<Irregular>(elements_are_distinct(out), op, "(): the written tensor overlaps itself");
}

// Brings `self` into the out= tensor, which may be `self` itself.
inline void prepare_out(const Tensor& self, const Tensor& out, const char* op) {
  check<Irregular>(sizes_of(out) == sizes_of(self) && same_dtype(out, self) && same_device(out, self), op,
                   "(): out has another shape, dtype or device");
  check_written(out, op);
  const auto a = out.strides();
  const auto b = self.strides();
  if (out.const_data_ptr() == self.const_data_ptr() && std::equal(a.begin(), a.end(), b.begin(), b.end())) return;
  Tensor written = out;
  torch::stable::copy_(written, detach_from(self, out, op));
}

// Neighbouring elements of a row that move together become one wider element.
inline void widen(Overwrite& problem) {
  const int last = problem.ndim - 1;
  if (last == problem.dim || problem.index_strides[last] != 0) return;
  if (problem.src_strides[last] != 1 || problem.out_strides[last] != 1) return;
  const auto addresses = reinterpret_cast<uintptr_t>(problem.src) | reinterpret_cast<uintptr_t>(problem.out);
  const int64_t bytes = problem.element_bytes;
  for (int64_t wide = 16; wide > bytes; wide /= 2) {
    bool fits = addresses % wide == 0 && problem.sizes[last] * bytes % wide == 0;
    for (int d = 0; d < last; ++d) {
      fits = fits && problem.src_strides[d] * bytes % wide == 0 && problem.out_strides[d] * bytes % wide == 0;
    }
    if (!fits) continue;
    const int64_t factor = wide / bytes;
    problem.element_bytes = static_cast<int>(wide);
    problem.sizes[last] /= factor;
    problem.num_elements /= factor;
    for (int d = 0; d < last; ++d) {
      problem.src_strides[d] /= factor;
      problem.out_strides[d] /= factor;
    }
    if (problem.sizes[last] == 1) --problem.ndim;
    return;
  }
}

// `dims` in source order; dims[dim] is the one that the index replaces, with its stride in out.
inline Overwrite make_overwrite(const Tensor& out, const Tensor& src, const Tensor& index, const std::vector<Dimension>& dims,
                                int64_t dim, const char* op) {
  check<Irregular>(has_plain_elements(out.element_size()), op, "(): dtype not supported");
  std::vector<Dimension> merged;
  Overwrite problem;
  problem.dim = coalesce(dims, dim, merged);
  check<Irregular>(merged.size() <= static_cast<size_t>(kMaxDims), op, "(): too many dimensions");
  problem.element_bytes = static_cast<int>(out.element_size());
  problem.out = out.mutable_data_ptr();
  problem.src = src.const_data_ptr();
  problem.index = index.const_data_ptr();
  problem.index_is_int64 = index.scalar_type() == ScalarType::Long;
  problem.ndim = static_cast<int>(merged.size());
  problem.num_elements = 1;
  for (int d = 0; d < problem.ndim; ++d) {
    problem.sizes[d] = merged[d].size;
    problem.src_strides[d] = merged[d].src_stride;
    problem.index_strides[d] = merged[d].index_stride;
    problem.out_strides[d] = merged[d].out_stride;
    problem.num_elements *= merged[d].size;
  }
  if (problem.num_elements > 0) widen(problem);
  return problem;
}

inline int64_t size_along(const Tensor& tensor, int64_t d) { return tensor.dim() == 0 ? 1 : tensor.size(d); }
inline int64_t stride_along(const Tensor& tensor, int64_t d) { return tensor.dim() == 0 ? 1 : tensor.stride(d); }

// Looks for the index that a backend has refused and raises the error that names it.
template <class Error>
[[noreturn]] void raise_bad_target(const Tensor& index, int64_t dim, int64_t lower, int64_t size, const char* op) {
  int64_t position = 0;
  while (position + 1 < index.numel()) {
    const int64_t value = index_value(index, position);
    if (value < lower || value >= size) break;
    ++position;
  }
  raise<Error>(op, "(): index ", index_value(index, position), " is out of bounds for dimension ", dim, " with size ", size,
               ", at position ", position);
}

// Before an out= tensor is prepared, which an error must leave as it was. Repeats of an expanded index are not looked at.
template <class Backend, class Error>
void check_targets(const Tensor& index, int64_t dim, int64_t size, const char* op) {
  Tensor distinct = index;
  for (int64_t d = 0; d < index.dim(); ++d) {
    if (index.stride(d) == 0 && index.size(d) > 1) distinct = torch::stable::narrow(distinct, d, 0, 1);
  }
  if (Backend::first_out_of_range(as_contiguous(distinct), 0, size) >= 0) raise_bad_target<Error>(index, dim, 0, size, op);
}

template <class Backend>
void scatter_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& src, const char* op) {
  if (index.numel() == 0) return;
  std::vector<Dimension> dims;
  for (int64_t d = 0; d < std::max<int64_t>(out.dim(), 1); ++d) {
    dims.push_back({size_along(index, d), stride_along(src, d), stride_along(index, d), stride_along(out, d)});
  }
  Overwrite problem = make_overwrite(out, src, index, dims, dim, op);
  problem.dim_size = size_along(out, dim);
  if (!Backend::overwrite(problem, out)) raise_bad_target<std::runtime_error>(index, dim, 0, problem.dim_size, op);
}

template <class Backend>
Tensor scatter(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  constexpr const char* op = "scatter";
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  const Tensor out = fresh_copy(self);
  scatter_into<Backend>(out, dim, index, src, op);
  return out;
}

template <class Backend>
void scatter_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src) {
  constexpr const char* op = "scatter_";
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  check_written(self, op);
  scatter_into<Backend>(self, dim, detach_from(index, self, op), detach_from(src, self, op), op);
}

template <class Backend>
void scatter_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, const Tensor& out) {
  constexpr const char* op = "scatter";
  dim = wrap_dim(dim, self.dim(), op);
  check_scatter_add(self, dim, index, src, op);
  const Tensor elements = detach_from(index, out, op);
  const Tensor values = detach_from(src, out, op);
  check_targets<Backend, std::runtime_error>(index, dim, size_along(self, dim), op);
  prepare_out(self, out, op);
  scatter_into<Backend>(out, dim, elements, values, op);
}

// What torch accepts; anything else is for torch to name.
inline void check_index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const char* op) {
  const bool is_vector = dtype_number(index) == aoti_torch_dtype_int64() && index.dim() <= 1;
  check<Irregular>(is_vector, op, "(): index must be an int64 vector");
  check<Irregular>(same_dtype(self, source), op, "(): source has another dtype");
  check<Irregular>(same_device(self, index) && same_device(self, source), op, "(): tensors are on different devices");
  check<Irregular>(std::max<int64_t>(self.dim(), 1) == std::max<int64_t>(source.dim(), 1), op,
                   "(): source has another number of dimensions");
  for (int64_t d = 0; d < self.dim(); ++d) {
    check<Irregular>(d == dim || self.size(d) == source.size(d), op, "(): source has another shape");
  }
  check<Irregular>(index.numel() == size_along(source, dim), op, "(): index and source have different lengths");
}

template <class Backend>
void index_copy_into(const Tensor& out, int64_t dim, const Tensor& index, const Tensor& source, const char* op) {
  std::vector<Dimension> dims;
  for (int64_t d = 0; d < std::max<int64_t>(out.dim(), 1); ++d) {
    const int64_t step = d == dim ? stride_along(index, 0) : 0;
    dims.push_back({size_along(source, d), stride_along(source, d), step, stride_along(out, d)});
  }
  Overwrite problem = make_overwrite(out, source, index, dims, dim, op);
  problem.dim_size = size_along(out, dim);
  if (!Backend::overwrite(problem, out)) raise_bad_target<std::out_of_range>(index, dim, 0, problem.dim_size, op);
}

template <class Backend>
Tensor index_copy(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  constexpr const char* op = "index_copy";
  dim = wrap_dim(dim, self.dim(), op);
  check_index_copy(self, dim, index, source, op);
  const Tensor out = fresh_copy(self);
  index_copy_into<Backend>(out, dim, index, source, op);
  return out;
}

template <class Backend>
void index_copy_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source) {
  constexpr const char* op = "index_copy_";
  dim = wrap_dim(dim, self.dim(), op);
  check_index_copy(self, dim, index, source, op);
  check_written(self, op);
  index_copy_into<Backend>(self, dim, detach_from(index, self, op), detach_from(source, self, op), op);
}

template <class Backend>
void index_copy_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, const Tensor& out) {
  constexpr const char* op = "index_copy";
  dim = wrap_dim(dim, self.dim(), op);
  check_index_copy(self, dim, index, source, op);
  const Tensor keys = detach_from(index, out, op);
  const Tensor rows = detach_from(source, out, op);
  check_targets<Backend, std::out_of_range>(index, dim, size_along(self, dim), op);
  prepare_out(self, out, op);
  index_copy_into<Backend>(out, dim, keys, rows, op);
}

// The dimensions of an index_put: those of the result of self[indices], the `block` of the index tensors' own at `first`
// seen as one, which `target` describes. False where the values do not let them be seen so.
inline bool point_dimensions(const Tensor& out, const std::vector<int64_t>& dims, int64_t first, int64_t block,
                             const Tensor& values, const Dimension& target, std::vector<Dimension>& result) {
  int64_t own = 0;  // the dimension of `out` that comes next
  for (int64_t d = 0; d < values.dim(); ++d) {
    if (d == first) {
      int64_t stride = 0;
      int64_t expected = -1;
      for (int64_t k = first + block; k-- > first;) {
        if (values.size(k) == 1) continue;
        if (expected < 0) {
          stride = values.stride(k);
        } else if (values.stride(k) != expected) {
          return false;
        }
        expected = values.stride(k) * values.size(k);
      }
      result.push_back({target.size, stride, target.index_stride, target.out_stride});
      if (block > 0) {
        d += block - 1;
        continue;
      }
    }
    while (std::find(dims.begin(), dims.end(), own) != dims.end()) ++own;
    result.push_back({values.size(d), values.stride(d), 0, out.stride(own)});
    ++own;
  }
  if (first == values.dim()) result.push_back({target.size, 0, target.index_stride, target.out_stride});
  return true;
}

template <class Backend>
void index_put_overwrite_into(const Tensor& out, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                              const Tensor& values, const char* op) {
  const Sizes shape = broadcast_sizes(indices, op);
  const int64_t num_points = product(shape.data(), shape.data() + shape.size());
  const int64_t first = are_neighbours(dims) ? dims.front() : 0;
  Sizes sizes;
  for (int64_t d = 0; d < out.dim(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) == dims.end()) sizes.push_back(out.size(d));
  }
  sizes.insert(sizes.begin() + first, shape.begin(), shape.end());
  Tensor read = expand(values, sizes, op);
  if (product(sizes.data(), sizes.data() + sizes.size()) == 0) return;

  // Several index tensors become offsets into `out`, whatever its strides.
  Tensor keys = indices.front();
  Dimension target{num_points, 0, 1, out.stride(dims.front())};
  int64_t bound = out.size(dims.front());
  if (indices.size() == 1) {
    keys = as_contiguous(keys);
  } else {
    Sizes dim_sizes;
    bound = 1;
    for (const int64_t d : dims) {
      dim_sizes.push_back(out.size(d));
      bound += (out.size(d) - 1) * out.stride(d);
    }
    IndexLinearization linearization = make_linearization(indices, shape, dim_sizes.data(), op);
    for (size_t k = 0; k < dims.size(); ++k) linearization.multipliers[k] = out.stride(dims[k]);
    keys = new_tensor({num_points}, ScalarType::Long, out);
    linearization.keys = static_cast<int64_t*>(keys.mutable_data_ptr());
    const int64_t bad = Backend::linearize(linearization, out);
    if (bad >= 0) raise_bad_index(indices, shape, dims, dim_sizes.data(), bad, op);
    target.out_stride = 1;
  }
  std::vector<Dimension> described;
  const int64_t block = static_cast<int64_t>(shape.size());
  if (!point_dimensions(out, dims, first, block, read, target, described)) {
    described.clear();
    read = torch::stable::contiguous(read);
    point_dimensions(out, dims, first, block, read, target, described);
  }
  Overwrite problem = make_overwrite(out, read, keys, described, first, op);
  problem.dim_size = bound;
  problem.wraps = indices.size() == 1;
  if (!Backend::overwrite(problem, out)) raise_bad_target<std::out_of_range>(keys, dims.front(), -bound, bound, op);
}

template <class Backend>
Tensor index_put_overwrite(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                           const Tensor& values) {
  constexpr const char* op = "index_put";
  check_index_put(self, indices, dims, values, op);
  const Tensor out = fresh_copy(self);
  index_put_overwrite_into<Backend>(out, indices, dims, values, op);
  return out;
}

template <class Backend>
void index_put_overwrite_(const Tensor& self, const std::vector<Tensor>& indices, const std::vector<int64_t>& dims,
                          const Tensor& values) {
  constexpr const char* op = "index_put_";
  check_index_put(self, indices, dims, values, op);
  check_written(self, op);
  std::vector<Tensor> separate;
  for (const Tensor& index : indices) separate.push_back(detach_from(index, self, op));
  index_put_overwrite_into<Backend>(self, separate, dims, detach_from(values, self, op), op);
}

template <class Backend>
void register_overwrite(torch::stable::detail::StableLibrary& library) {
  library.impl("scatter", TORCH_BOX(&scatter<Backend>));
  library.impl("scatter_", TORCH_BOX(&scatter_<Backend>));
  library.impl("scatter_out", TORCH_BOX(&scatter_out<Backend>));
  library.impl("index_copy", TORCH_BOX(&index_copy<Backend>));
  library.impl("index_copy_", TORCH_BOX(&index_copy_<Backend>));
  library.impl("index_copy_out", TORCH_BOX(&index_copy_out<Backend>));
  library.impl("index_put_overwrite", TORCH_BOX(&index_put_overwrite<Backend>));
  library.impl("index_put_overwrite_", TORCH_BOX(&index_put_overwrite_<Backend>));
}

}  // namespace reprocuda
