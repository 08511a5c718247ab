#include "bags.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "../../numerics/double_double.h"
#include "../../numerics/exact_sum.h"
#include "../../numerics/half.h"
#include "../../numerics/interval.h"
#include "../extrema/extremum_kernel.h"
#include "../parallel.h"
#include "../workspace.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kElementsPerWorker = 1 << 15;
constexpr int64_t kBlocksPerWorker = 8;

template <class Function>
void with_element(Dtype dtype, Function&& function) {
  switch (dtype) {
    case Dtype::kFloat16: return function(Half{});
    case Dtype::kBFloat16: return function(BFloat16{});
    case Dtype::kFloat32: return function(float{});
    default: return function(double{});
  }
}

// One bag, one tile of columns.
template <class Order>
void bag_tile_maximum(const BagMaximum& problem, int64_t bag, int64_t column, int64_t columns,
                      BestOfRows<Order, int64_t> best_of_rows) {
  using Bits = typename Order::Bits;
  Bits* const out = static_cast<Bits*>(problem.out) + bag * problem.features + column;
  int64_t* const argmax = problem.argmax + bag * problem.features + column;
  const int64_t first = problem.offsets[bag];
  const int64_t count = problem.offsets[bag + 1] - first;
  if (count == 0) {
    std::memset(out, 0, columns * sizeof(Bits));
    std::memset(argmax, 0, columns * sizeof(int64_t));
    return;
  }
  typename ExtremumSegment<Order, int64_t>::Key best[kExtremumColumns];
  best_of_rows({static_cast<const Bits*>(problem.table) + column, problem.features, columns, problem.rows + first, 0, count,
                true, best, argmax});
  for (int64_t c = 0; c < columns; ++c) out[c] = Order::bits(static_cast<typename Order::Key>(best[c]), true);
}

template <class T>
using Products = std::conditional_t<std::is_same_v<T, double>, Fp64Products, Fp32Products>;

template <class T>
T exact_product(const T* left, const T* right, int64_t features) {
  ExactAccumulator<Products<T>> accumulator;
  const ExactSum<Products<T>> sum = accumulator.view();
  sum.clear();
  for (int64_t f = 0; f < features; ++f) {
    sum.add_product(to_double(left[f]), to_double(right[f]));
    if ((f & ((int64_t{1} << 29) - 1)) == (int64_t{1} << 29) - 1) sum.normalize();
  }
  return sum.template round<T>();
}

// In round-up mode, where the sum of the negated products encloses from below. Lanes are independent sums.
template <class T>
bool product_by_interval(const T* left, const T* right, int64_t features, T* result) {
  constexpr int kLanes = 4;
  double high[kLanes];
  double negated_low[kLanes];
  std::fill_n(high, kLanes, -0.0);
  std::fill_n(negated_low, kLanes, 0.0);
  int64_t f = 0;
  for (; f + kLanes <= features; f += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const double product = to_double(left[f + lane]) * to_double(right[f + lane]);  // exact
      high[lane] += product;
      negated_low[lane] -= product;
    }
  }
  for (; f < features; ++f) {
    const double product = to_double(left[f]) * to_double(right[f]);
    high[0] += product;
    negated_low[0] -= product;
  }
  for (int lane = 1; lane < kLanes; ++lane) {
    high[0] += high[lane];
    negated_low[0] += negated_low[lane];
  }
  return certify<T>(-negated_low[0], high[0], result);
}

bool product_by_compensation(const double* left, const double* right, int64_t features, double* result) {
  CompensatedSum sum = CompensatedSum::empty();
  bool inexact = false;
  for (int64_t f = 0; f < features; ++f) sum.add_product(left[f], right[f], &inexact);
  return (!inexact || !is_finite(sum.scaled)) && sum.certify(result);
}

template <class T>
void products_between(const RowProducts& problem, int64_t first, int64_t last) {
  constexpr bool kIsDouble = std::is_same_v<T, double>;
  const RoundingScope scope(kIsDouble ? RoundingMode::kNearest : RoundingMode::kUpward);
  T* const out = static_cast<T*>(problem.out);
  for (int64_t p = first; p < last; ++p) {
    if (problem.right_rows[p] == problem.ignored || problem.features == 0) {
      out[p] = zero<T>(false);
      continue;
    }
    const T* const left = static_cast<const T*>(problem.left) + problem.left_rows[p] * problem.features;
    const T* const right = static_cast<const T*>(problem.right) + problem.right_rows[p] * problem.features;
    bool certified = false;
    if constexpr (kIsDouble) {
      certified = product_by_compensation(left, right, problem.features, &out[p]);
    } else {
      certified = product_by_interval(left, right, problem.features, &out[p]);
    }
    if (!certified) out[p] = exact_product(left, right, problem.features);
  }
}

}  // namespace

void bag_maximum(const BagMaximum& problem) {
  if (problem.num_bags == 0 || problem.features == 0) return;
  prefer_huge_pages(problem.out, problem.num_bags * problem.features * element_size(problem.dtype));
  prefer_huge_pages(problem.argmax, problem.num_bags * problem.features * sizeof(int64_t));
  const int64_t tiles = (problem.features + kExtremumColumns - 1) / kExtremumColumns;
  const int workers = workers_for((problem.num_rows + problem.num_bags) * problem.features, kElementsPerWorker);
  const int64_t blocks = std::min(problem.num_bags, workers * kBlocksPerWorker);
  with_order(problem.dtype, [&](auto order) {
    const auto best = best_of_rows<decltype(order), int64_t>();
    run_tasks(workers, blocks * tiles, [&](int, int64_t task) {
      const int64_t column = task % tiles * kExtremumColumns;
      const int64_t columns = std::min(kExtremumColumns, problem.features - column);
      const int64_t end = part_begin(problem.num_bags, blocks, task / tiles + 1);
      for (int64_t bag = part_begin(problem.num_bags, blocks, task / tiles); bag < end; ++bag) {
        bag_tile_maximum<decltype(order)>(problem, bag, column, columns, best);
      }
    });
  });
}

void row_products(const RowProducts& problem) {
  const int workers = workers_for(problem.num_products * (problem.features + 8), kElementsPerWorker);
  const int64_t blocks = std::min(problem.num_products, workers * kBlocksPerWorker);
  with_element(problem.dtype, [&](auto element) {
    run_tasks(workers, blocks, [&](int, int64_t block) {
      products_between<decltype(element)>(problem, part_begin(problem.num_products, blocks, block),
                                          part_begin(problem.num_products, blocks, block + 1));
    });
  });
}

}  // namespace reprocuda::cpu
