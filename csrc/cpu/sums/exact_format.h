// Which superaccumulator a problem needs, and how one contribution enters it.
#pragma once

#include <type_traits>

#include "../../numerics/exact_sum.h"
#include "../../problems/accumulation.h"
#include "binned_sum.h"

namespace reprocuda::cpu {

// Calls function(Format{}) with the smallest format that holds the contributions of type T under `alpha`.
template <class T, class Function>
void with_exact_format(const Alpha& alpha, Function&& function) {
  if constexpr (std::is_same_v<T, double>) {
    alpha.is_one ? function(Fp64Terms{}) : function(Fp64Products{});
  } else {
    alpha.is_one ? function(BinnedTerms{}) : function(Fp32Products{});
  }
}

// The accumulator of a format, a view made of (limbs, stride, flags), and how many additions it takes between two
// normalize(); a complex product makes two.
template <class Format>
struct ExactAccumulation {
  using Sum = ExactSum<Format>;
  static constexpr int64_t kMostAdds = int64_t{1} << 29;
};
template <>
struct ExactAccumulation<BinnedTerms> {
  using Sum = BinnedSum;
  static constexpr int64_t kMostAdds = int64_t{1} << 22;
};
template <class Format>
using ExactSumOf = typename ExactAccumulation<Format>::Sum;

template <class T>
void add_term(const BinnedSum& sum, T value) {
  sum.add(to_float(value));
}
template <class Format, class T>
void add_term(const ExactSum<Format>& sum, T value) {
  sum.add(to_double(value));
}

template <class Format>
inline constexpr bool kHoldsProducts = std::is_same_v<Format, Fp32Products> || std::is_same_v<Format, Fp64Products>;

// Adds what `row` contributes to column `column`: one term, one product, or the two products that make up one part of a
// complex one.
template <class Format, class T>
void add_contribution(const ExactSumOf<Format>& sum, const Alpha& alpha, bool complex_pairs, const T* row, int64_t column) {
  if constexpr (!kHoldsProducts<Format>) {
    add_term(sum, row[column]);
  } else {
    sum.add_product(alpha.real, to_double(row[column]));
    if (complex_pairs) sum.add_product((column & 1) ? alpha.imag : -alpha.imag, to_double(row[column ^ 1]));
  }
}

}  // namespace reprocuda::cpu
