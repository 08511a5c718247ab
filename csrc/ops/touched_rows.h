// In-place sums of few rows into a target that is not contiguous: a column slice or a transpose of a large table.
//
// The backends write contiguous targets. Copying the whole target there and back is right when most of it is touched; a few
// rows of a large one are instead selected, summed into and put back, which costs what they cost.
#pragma once

#include <algorithm>
#include <array>

#include "accumulate.h"

namespace reprocuda {

class TouchedRows {
 public:
  // `index` is a contiguous vector that names rows of `self` along `dim`, all in range, on the CPU.
  TouchedRows(const Tensor& self, int64_t dim, const Tensor& index) : self_(self), dim_(dim) {
    Sizes keys(static_cast<size_t>(index.numel()));
    for (int64_t i = 0; i < index.numel(); ++i) keys[i] = index_value(index, i);
    Sizes rows(keys);
    std::sort(rows.begin(), rows.end());
    rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
    names_ = new_tensor({static_cast<int64_t>(rows.size())}, ScalarType::Long, self);
    std::copy(rows.begin(), rows.end(), static_cast<int64_t*>(names_.mutable_data_ptr()));
    index_ = new_tensor({index.numel()}, ScalarType::Long, self);
    std::transform(keys.begin(), keys.end(), static_cast<int64_t*>(index_.mutable_data_ptr()), [&](int64_t key) {
      return std::lower_bound(rows.begin(), rows.end(), key) - rows.begin();
    });
    std::array<StableIValue, 3> stack{torch::stable::detail::from(self), torch::stable::detail::from(dim),
                                      torch::stable::detail::from(names_)};
    TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::index_select", "", stack.data(), TORCH_ABI_VERSION));
    rows_ = torch::stable::detail::to<Tensor>(stack[0]);
  }

  const Tensor& rows() const { return rows_; }    // self, with size(dim) the number of touched rows
  const Tensor& index() const { return index_; }  // [num_rows], into rows()

  void write_back() const {
    std::array<StableIValue, 4> stack{torch::stable::detail::from(self_), torch::stable::detail::from(dim_),
                                      torch::stable::detail::from(names_), torch::stable::detail::from(rows_)};
    TORCH_ERROR_CODE_CHECK(torch_call_dispatcher("aten::index_copy_", "", stack.data(), TORCH_ABI_VERSION));
    torch::stable::detail::to<Tensor>(stack[0]);  // takes ownership of what is returned
  }

 private:
  Tensor self_;
  int64_t dim_;
  Tensor names_;
  Tensor index_;
  Tensor rows_;
};

// Whether that pays. Not on a device: the number of touched rows would have to be waited for.
inline bool touches_few_rows(const Tensor& self, int64_t dim, int64_t num_rows) {
  constexpr int64_t kWorthwhile = 8;
  return self.is_cpu() && self.dim() > 0 && !self.is_contiguous() && num_rows > 0 && self.size(dim) / kWorthwhile > num_rows;
}

}  // namespace reprocuda
