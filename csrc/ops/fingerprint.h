// fingerprint_: the 128-bit hash of a tensor's dtype, shape and bits, written to one row of a table of digests.
//
// Nothing is allocated and nothing waits, so that an audit can afford it at every operator. A conjugate or negated view
// arrives here resolved: torch's own fallback for those keys has copied it.
#pragma once

#include "../problems/fingerprint.h"
#include "tensor.h"

namespace reprocuda {

inline constexpr const char* kFingerprintSchemas[] = {
    "fingerprint_(Tensor(a!) digests, int row, Tensor x) -> ()",
};

// False where even the merged dimensions are too many.
inline bool describe_elements(FingerprintProblem& problem, const Tensor& x) {
  const auto sizes = x.sizes();
  const auto strides = x.strides();
  problem.data = x.const_data_ptr();
  problem.num_elements = x.numel();
  problem.ndim = 0;
  for (size_t d = 0; d < sizes.size() && problem.num_elements > 0; ++d) {
    if (sizes[d] == 1) continue;
    const int last = problem.ndim - 1;
    if (last >= 0 && problem.strides[last] == sizes[d] * strides[d]) {
      problem.sizes[last] *= sizes[d];
      problem.strides[last] = strides[d];
      continue;
    }
    if (problem.ndim == kMaxDims) return false;
    problem.sizes[problem.ndim] = sizes[d];
    problem.strides[problem.ndim++] = strides[d];
  }
  return true;
}

inline Fingerprint fingerprint_header(const Tensor& x) {
  Fingerprint header = {{fingerprint_multiplier(0), fingerprint_multiplier(1)}};
  const auto sizes = x.sizes();
  fingerprint_append(header, dtype_number(x));
  fingerprint_append(header, static_cast<int64_t>(sizes.size()));
  for (const int64_t size : sizes) fingerprint_append(header, size);
  return header;
}

template <class Backend>
void fingerprint_(const Tensor& digests, int64_t row, const Tensor& x) {
  constexpr const char* op = "fingerprint_";
  check<std::runtime_error>(dtype_number(digests) == aoti_torch_dtype_int64() && digests.dim() == 2 && digests.size(1) == 2 &&
                                digests.is_contiguous(),
                            op, "(): digests must be a contiguous int64 tensor of shape [capacity, 2]");
  check<std::runtime_error>(same_device(digests, x), op, "(): digests and x must be on the same device");
  check<std::out_of_range>(row >= 0 && row < digests.size(0), op, "(): row ", row, " is out of bounds for digests of ",
                           digests.size(0), " rows");
  const size_t element_bytes = x.element_size();
  check<std::runtime_error>(has_plain_elements(element_bytes), op, "(): x has a dtype with elements of ", element_bytes,
                            " bytes; expected 1, 2, 4, 8 or 16");
  FingerprintProblem problem;
  problem.element_bytes = static_cast<int>(element_bytes);
  problem.is_bool = dtype_number(x) == aoti_torch_dtype_bool();
  problem.header = fingerprint_header(x);
  const bool described = describe_elements(problem, x);
  const Tensor copy = described ? x : torch::stable::contiguous(x);
  if (!described) describe_elements(problem, copy);
  Backend::fingerprint(problem, static_cast<int64_t*>(digests.mutable_data_ptr()) + 2 * row, x);
}

template <class Backend>
void register_fingerprint(torch::stable::detail::StableLibrary& library) {
  library.impl("fingerprint_", TORCH_BOX(&fingerprint_<Backend>));
}

}  // namespace reprocuda
