// What ops/ needs of a tensor beyond the stable ABI's own accessors: creation without the deterministic NaN fill, strided
// views, overlap questions, dtypes as the backends name them.
#pragma once

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "check.h"
#include "../numerics/dtype.h"

namespace reprocuda {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;
using Sizes = std::vector<int64_t>;

struct ElementType {
  Dtype dtype;  // of one real component
  bool is_complex;
};

// The backends' name for a torch dtype; nothing for the dtypes that no by-index operator of torch adds up.
inline std::optional<ElementType> element_type(ScalarType type) {
  switch (type) {
    case ScalarType::Byte: return ElementType{Dtype::kUInt8, false};
    case ScalarType::Char: return ElementType{Dtype::kInt8, false};
    case ScalarType::Short: return ElementType{Dtype::kInt16, false};
    case ScalarType::Int: return ElementType{Dtype::kInt32, false};
    case ScalarType::Long: return ElementType{Dtype::kInt64, false};
    case ScalarType::Bool: return ElementType{Dtype::kBool, false};
    case ScalarType::Half: return ElementType{Dtype::kFloat16, false};
    case ScalarType::BFloat16: return ElementType{Dtype::kBFloat16, false};
    case ScalarType::Float: return ElementType{Dtype::kFloat32, false};
    case ScalarType::Double: return ElementType{Dtype::kFloat64, false};
    case ScalarType::ComplexHalf: return ElementType{Dtype::kFloat16, true};
    case ScalarType::ComplexFloat: return ElementType{Dtype::kFloat32, true};
    case ScalarType::ComplexDouble: return ElementType{Dtype::kFloat64, true};
    default: return std::nullopt;
  }
}

inline ElementType require_element_type(const Tensor& tensor, const char* op) {
  const auto type = element_type(tensor.scalar_type());
  check<Irregular>(type.has_value(), op, "(): dtype not supported");
  return *type;
}

// torch's number of a dtype. scalar_type() knows fewer of them than torch does.
inline int32_t dtype_number(const Tensor& tensor) {
  int32_t number = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &number));
  return number;
}

inline bool same_dtype(const Tensor& a, const Tensor& b) { return dtype_number(a) == dtype_number(b); }

// Quantised dtypes carry their scale elsewhere and have dispatch keys of their own; every other dtype is plain memory.
inline bool has_plain_elements(size_t element_bytes) {
  return element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8 || element_bytes == 16;
}

inline bool is_index_dtype(const Tensor& index) {
  return dtype_number(index) == aoti_torch_dtype_int64() || dtype_number(index) == aoti_torch_dtype_int32();
}

inline Sizes sizes_of(const Tensor& tensor) {
  const auto sizes = tensor.sizes();
  return Sizes(sizes.begin(), sizes.end());
}

inline int64_t product(const int64_t* begin, const int64_t* end) {
  int64_t result = 1;
  for (; begin != end; ++begin) {
    result *= *begin;
  }
  return result;
}

inline Sizes contiguous_strides(const Sizes& sizes) {
  Sizes strides(sizes.size());
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

// Uninitialised memory, whatever torch.utils.deterministic.fill_uninitialized_memory says: every byte gets written.
inline Tensor new_tensor(const Sizes& sizes, int32_t dtype, const Tensor& device_like) {
  const Sizes strides = contiguous_strides(sizes);
  int32_t device_type = 0;
  int32_t device_index = 0;
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(device_like.get(), &device_type));
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(device_like.get(), &device_index));
  if (aoti_torch_empty_strided(static_cast<int64_t>(sizes.size()), sizes.data(), strides.data(), dtype, device_type,
                               device_index, &handle) != AOTI_TORCH_SUCCESS) {
    std::string words;  // torch's own check would name this file instead
    for (const int64_t size : sizes) words += (words.empty() ? "" : ", ") + std::to_string(size);
    raise<std::runtime_error>("reprocuda: no memory for a tensor of shape [", words, "]");
  }
  return Tensor(handle);
}

inline Tensor new_tensor(const Sizes& sizes, ScalarType dtype, const Tensor& device_like) {
  return new_tensor(sizes, torch::stable::detail::to<int32_t>(torch::stable::detail::from(dtype)), device_like);
}

// A view of the same storage, from the same first element; it may have another number of dimensions.
inline Tensor view_as(const Tensor& tensor, const Sizes& sizes, const Sizes& strides) {
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch__reinterpret_tensor(tensor.get(), static_cast<int64_t>(sizes.size()), sizes.data(),
                                                        strides.data(), /*offset_increment=*/0, &handle));
  return Tensor(handle);
}

inline Tensor as_contiguous(const Tensor& tensor) {
  return tensor.is_contiguous() ? tensor : torch::stable::contiguous(tensor);
}

inline bool same_device(const Tensor& a, const Tensor& b) {
  return a.is_cuda() == b.is_cuda() && a.is_cpu() == b.is_cpu() && a.get_device_index() == b.get_device_index();
}

// The bytes a tensor can reach: [first, last).
struct MemoryRange {
  const char* first;
  const char* last;
};

inline MemoryRange memory_range(const Tensor& tensor) {
  const char* first = static_cast<const char*>(tensor.const_data_ptr());
  if (tensor.numel() == 0) {
    return {first, first};
  }
  int64_t reach = 1;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    reach += (sizes[d] - 1) * strides[d];  // torch's strides are never negative
  }
  return {first, first + reach * static_cast<int64_t>(tensor.element_size())};
}

inline bool ranges_meet(const Tensor& a, const Tensor& b) {
  const MemoryRange x = memory_range(a);
  const MemoryRange y = memory_range(b);
  return x.first < y.last && y.first < x.last;
}

struct Step {
  int64_t stride;
  int64_t size;
};

// The same for dimensions that interleave in a way that their strides alone do not tell: one bit for each element of the
// memory that they reach. Only as_strided makes three of them.
inline bool offsets_are_distinct(const std::vector<Step>& steps, int64_t reach) {
  std::vector<bool> taken(static_cast<size_t>(reach));
  std::vector<int64_t> position(steps.size());
  int64_t offset = 0;
  for (size_t d = 0; d < steps.size();) {
    if (d == 0) {
      if (taken[static_cast<size_t>(offset)]) {
        return false;
      }
      taken[static_cast<size_t>(offset)] = true;
    }
    if (++position[d] < steps[d].size) {
      offset += steps[d].stride;
      d = 0;
    } else {  // carry
      offset -= steps[d].stride * (steps[d].size - 1);
      position[d] = 0;
      ++d;
    }
  }
  return true;
}

// Does every element have memory of its own? Exact: torch's own check gives up where the answer is not in the strides, and
// then writes whatever comes of it.
inline bool elements_are_distinct(const Tensor& tensor) {
  if (tensor.numel() <= 1 || tensor.is_contiguous()) {
    return true;
  }
  std::vector<Step> steps;
  int64_t reach = 1;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] > 1) {
      steps.push_back({strides[d], sizes[d]});
      reach += (sizes[d] - 1) * strides[d];
    }
  }
  std::sort(steps.begin(), steps.end(), [](const Step& a, const Step& b) { return a.stride < b.stride; });
  // A dimension that steps over all that the smaller ones reach has no part in it. Slicing and permuting make no others.
  while (!steps.empty()) {
    const auto [stride, size] = steps.back();
    const int64_t reach_of_smaller = reach - (size - 1) * stride;
    if (stride < reach_of_smaller) {
      break;
    }
    reach = reach_of_smaller;
    steps.pop_back();
  }
  if (steps.empty()) {
    return true;
  }
  if (steps.front().stride == 0) {
    return false;
  }
  if (steps.size() == 2) {  // they meet where a multiple of one stride is a multiple of the other
    const int64_t divisor = std::gcd(steps[0].stride, steps[1].stride);
    return steps[1].stride / divisor >= steps[0].size || steps[0].stride / divisor >= steps[1].size;
  }
  return offsets_are_distinct(steps, reach);
}

inline bool is_dense(const Tensor& tensor) {
  const MemoryRange range = memory_range(tensor);
  return elements_are_distinct(tensor) &&
         range.last - range.first == tensor.numel() * static_cast<int64_t>(tensor.element_size());
}

// An argument that is read while `written` is being written. Sharing memory with it is torch's error when both are dense
// (its own check says which one); slices that interleave without meeting are legitimate and are read from a copy.
inline Tensor detach_from(const Tensor& argument, const Tensor& written, const char* op) {
  if (!ranges_meet(argument, written)) {
    return argument;
  }
  check<Irregular>(!(is_dense(argument) && is_dense(written)), op, "(): an argument shares memory with the result");
  return torch::stable::clone(argument);
}

inline int64_t wrap_dim(int64_t dim, int64_t ndim, const char* op) {
  const int64_t range = std::max<int64_t>(ndim, 1);
  check<Irregular>(dim >= -range && dim < range, op, "(): dimension out of range");
  return dim < 0 ? dim + range : dim;
}

// The value at a logical position of an index tensor, for error messages.
inline int64_t index_value(const Tensor& index, int64_t position) {
  const auto sizes = index.sizes();
  const auto strides = index.strides();
  int64_t offset = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    offset += position % sizes[d] * strides[d];
    position /= sizes[d];
  }
  return index.scalar_type() == ScalarType::Int ? static_cast<const int32_t*>(index.const_data_ptr())[offset]
                                                : static_cast<const int64_t*>(index.const_data_ptr())[offset];
}

}  // namespace reprocuda
