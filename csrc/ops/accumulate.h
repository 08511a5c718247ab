// Shared by every family: where results live, how alpha arrives, and the one way to run a canonical problem.
//
// A Backend (csrc/cpu/registration.cpp, csrc/cuda/registration.cpp) is a struct of static functions:
//   int64_t accumulate(const Accumulation&, const Tensor& out), the same for ElementAccumulation
//   int64_t linearize(const IndexLinearization&, const Tensor& out)
//   bool overwrite(const Overwrite&, const Tensor& out); false: an index is out of range and nothing has been written
//   int64_t first_out_of_range(const Tensor& index, int64_t lower, int64_t upper)
//   int64_t build_plan(const Tensor& index, int64_t num_targets, int64_t* permutation, int64_t* offsets)
//   void check_plan(const Tensor* permutation, const Tensor& offsets, int64_t num_rows, const char* op)
// The int64 results are the position of the first out-of-range index, or -1 (always -1 where the device traps instead);
// nothing has been written when it is not -1.
#pragma once

#include <cmath>
#include <limits>

#include "../numerics/rounding.h"
#include "../problems/accumulation.h"
#include "tensor.h"

namespace reprocuda {

template <class Integer>
inline bool fits(int64_t value) {
  return value >= std::numeric_limits<Integer>::min() && value <= std::numeric_limits<Integer>::max();
}

inline bool integer_alpha_fits(Dtype dtype, int64_t alpha) {
  switch (dtype) {
    case Dtype::kBool: return alpha == 0 || alpha == 1;
    case Dtype::kUInt8: return fits<uint8_t>(alpha);
    case Dtype::kInt8: return fits<int8_t>(alpha);
    case Dtype::kInt16: return fits<int16_t>(alpha);
    case Dtype::kInt32: return fits<int32_t>(alpha);
    default: return true;
  }
}

// Rounded to fp32, by integers: the caller may flush subnormals, and then plain conversions lose them both ways.
inline double rounded_to_float(double value) {
  const float narrow = round_to<float>(value);
  const uint32_t magnitude = bits_of(narrow) & 0x7fffffffu;
  if (magnitude >= 0x800000u) return narrow;
  return std::copysign(static_cast<double>(magnitude) * 0x1p-149, value);
}

inline double largest_finite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16: return 65504.0;
    case Dtype::kBFloat16: return 0x1.fep127;
    case Dtype::kFloat32: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

// torch's rule, with one op-math type: alpha becomes fp32 for 16- and 32-bit floats and double for fp64, rounded once. A
// finite one must be in the range of the dtype itself. A Python integer arrives as `integer`, with real == 1, so that its own
// rounding is the only one.
inline Alpha make_alpha(ElementType type, double real, double imag, int64_t integer, const char* op) {
  Alpha alpha;
  if (!is_floating_point(type.dtype)) {
    check<Irregular>(is_zero(imag) && integer_alpha_fits(type.dtype, integer), op, "(): alpha does not fit the dtype");
    alpha.integer = integer;
    alpha.is_one = integer == 1;
    return alpha;
  }
  check<Irregular>(is_zero(imag) || type.is_complex, op, "(): alpha is complex, the dtype is not");
  const bool is_integer = real == 1 && is_zero(imag);
  const auto in_range = [&](double value) { return !std::isfinite(value) || std::fabs(value) <= largest_finite(type.dtype); };
  check<Irregular>(in_range(is_integer ? static_cast<double>(integer) : real) && in_range(imag), op,
                   "(): alpha overflows the dtype");
  if (type.dtype == Dtype::kFloat64) {
    alpha.real = is_integer ? static_cast<double>(integer) : real;
    alpha.imag = imag;
  } else {
    alpha.real = is_integer ? static_cast<float>(integer) : rounded_to_float(real);
    alpha.imag = rounded_to_float(imag);
  }
  alpha.is_one = alpha.real == 1 && is_zero(alpha.imag);
  return alpha;
}

// Where an operator's result is written, and what joins the sum from `self`. The target is always dense; an in-place
// `self` that is not gets a dense stand-in, copied back by commit().
class Target {
 public:
  // out-of-place: a fresh result, `self` only read
  static Target fresh(const Tensor& self) {
    return Target(new_tensor(sizes_of(self), self.scalar_type(), self), as_contiguous(self), std::nullopt);
  }

  static Target in_place(const Tensor& self, const char* op) {
    check<Irregular>(elements_are_distinct(self), op, "(): the written tensor overlaps itself");
    Tensor dense = as_contiguous(self);
    return Target(dense, dense, self.is_contiguous() ? std::nullopt : std::optional<Tensor>(self));
  }

  // `out` of the right shape, given by the user; it may be `self` itself, but not share part of its memory
  static Target given(const Tensor& self, const Tensor& out, const char* op) {
    check<Irregular>(sizes_of(out) == sizes_of(self) && out.scalar_type() == self.scalar_type() && same_device(out, self),
                     op, "(): out has another shape, dtype or device");
    check<Irregular>(elements_are_distinct(out), op, "(): out overlaps itself");
    const bool is_self = out.const_data_ptr() == self.const_data_ptr() && out.is_contiguous() && self.is_contiguous();
    if (is_self) {
      return in_place(out, op);
    }
    const Tensor read = as_contiguous(detach_from(self, out, op));
    if (out.is_contiguous()) {
      return Target(out, read, std::nullopt);
    }
    return Target(new_tensor(sizes_of(out), out.scalar_type(), out), read, out);
  }

  const Tensor& out() const { return out_; }
  void* out_ptr() const { return out_.mutable_data_ptr(); }
  const void* self_ptr() const { return self_.const_data_ptr(); }

  // For a problem without contributions.
  void copy_self() { torch::stable::copy_(out_, self_); }

  // Call when the result is complete.
  void commit() {
    if (destination_) {
      torch::stable::copy_(*destination_, out_);
    }
  }

 private:
  Target(Tensor out, Tensor self, std::optional<Tensor> destination)
      : out_(std::move(out)), self_(std::move(self)), destination_(std::move(destination)) {}

  Tensor out_;
  Tensor self_;
  std::optional<Tensor> destination_;
};

inline Accumulation make_accumulation(ElementType type, const Alpha& alpha = {}) {
  Accumulation problem;
  problem.dtype = type.dtype;
  problem.complex_pairs = type.is_complex;
  problem.alpha = alpha;
  return problem;
}

// How contributions, and `self` if it is one, make a result.
struct Combination {
  Reduction reduction = Reduction::kSum;
  bool include_self = true;
};

// By torch's name.
inline Reduction reduction_named(const std::string& name, const char* op) {
  if (name == "sum") return Reduction::kSum;
  if (name == "mean") return Reduction::kMean;
  if (name == "prod") return Reduction::kProd;
  if (name == "amax") return Reduction::kAmax;
  if (name == "amin") return Reduction::kAmin;
  raise<Irregular>(op, "(): reduce must be one of sum, mean, prod, amax, amin, not ", name);
}

template <class Problem>
void set_combination(Problem& problem, Combination how) {
  problem.reduction = how.reduction;
  problem.include_self = how.include_self;
}

// Complex numbers have no order, and only their sums and means are those of their parts; a mean of bools is none.
inline Combination combination(const Tensor& self, const std::string& reduce, bool include_self, const char* op) {
  const Combination how{reduction_named(reduce, op), include_self};
  const ElementType type = require_element_type(self, op);
  check<Irregular>(how.reduction == Reduction::kSum || how.reduction == Reduction::kMean || !type.is_complex, op,
                   "(): complex numbers can only be summed, or their mean taken");
  check<Irregular>(how.reduction != Reduction::kMean || type.dtype != Dtype::kBool, op, "(): bools have no mean");
  return how;
}

// [outer, size(dim), inner] around one dimension; a 0-dim tensor counts as one element.
struct Extents {
  int64_t outer = 1;
  int64_t size = 1;
  int64_t inner = 1;
};

inline Extents extents_around(const Sizes& sizes, int64_t dim) {
  if (sizes.empty()) {
    return {};
  }
  return {product(sizes.data(), sizes.data() + dim), sizes[dim],
          product(sizes.data() + dim + 1, sizes.data() + sizes.size())};
}

inline void set_shape(Accumulation& problem, const Extents& extents, int64_t num_rows) {
  problem.outer = extents.outer;
  problem.num_targets = extents.size;
  problem.inner = extents.inner * (problem.complex_pairs ? 2 : 1);
  problem.num_rows = num_rows;
}

}  // namespace reprocuda
