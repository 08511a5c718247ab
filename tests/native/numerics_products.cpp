// Binds the products of csrc/numerics. `values` are [rows, terms]; results come back as (vouched for, bits).
#include "numerics.h"

#include "numerics/exact_product.h"

namespace reprocuda::testing {
namespace {

// certify(row's values, result) for every row.
template <class T, class Certify>
py::tuple for_each_row(const Doubles& values, Certify&& certify) {
  const int64_t rows = values.shape(0);
  Flags certified(rows);
  Words bits(rows);
  for (int64_t row = 0; row < rows; ++row) {
    T result = {};
    certified.mutable_data()[row] = certify(values.data() + row * values.shape(1), &result);
    bits.mutable_data()[row] = bits_of(result);
  }
  return py::make_tuple(certified, bits);
}

py::tuple interval_product(Doubles values, const std::string& dtype, int64_t chunk, bool reversed) {
  return with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return for_each_row<T>(values, [&](const double* x, T* result) {
      const auto product = reduce_in_parts<ProductInterval>(values.shape(1), chunk, reversed,
                                                            [&](ProductInterval& part, int64_t i) { part.multiply(x[i]); });
      return certify_product(product.tail, product.low, product.high, result);
    });
  });
}

py::tuple compensated_product(Doubles values, const std::string& dtype, int64_t chunk, bool reversed) {
  return with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return for_each_row<T>(values, [&](const double* x, T* result) {
      const auto product = reduce_in_parts<CompensatedProduct>(
          values.shape(1), chunk, reversed, [&](CompensatedProduct& part, int64_t i) { part.multiply(x[i]); });
      return certify_product(product.scale, product.head, product.rest, product.inexact, result);
    });
  });
}

// Parts of `chunk` factors, in memory of `capacity` words, merged in order.
py::tuple exact_product(Doubles values, const std::string& dtype, int64_t capacity, int64_t chunk, const std::string& mode) {
  const FloatingPointMode scope(mode);
  const int64_t terms = values.shape(1);
  const size_t size = static_cast<size_t>(2 * capacity + ExactProduct::kSpareWords);
  std::vector<uint32_t> own(size);
  std::vector<uint32_t> other(size);
  return with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return for_each_row<T>(values, [&](const double* x, T* result) {
      ExactProduct product(own.data(), capacity);
      for (int64_t i = 0; i < std::min(chunk, terms); ++i) product.multiply(x[i]);
      for (int64_t begin = chunk; begin < terms; begin += chunk) {
        ExactProduct part(other.data(), capacity);
        for (int64_t i = begin; i < std::min(begin + chunk, terms); ++i) part.multiply(x[i]);
        product.merge(part);
      }
      return product.round(result);
    });
  });
}

// Also returns the words asked for, of `available` ones.
py::tuple product_until_settled(Doubles values, const std::string& dtype, int64_t available) {
  py::list asked;
  std::vector<uint32_t> words;
  const auto memory = [&](int64_t size) {
    asked.append(size);
    words.assign(static_cast<size_t>(size), 0xabababab);
    return words.data();
  };
  return with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t terms = values.shape(1);
    const py::tuple results = for_each_row<T>(values, [&](const double* x, T* result) {
      const auto multiply_all = [&](ExactProduct& product) {
        for (int64_t i = 0; i < terms; ++i) product.multiply(x[i]);
      };
      return multiply_until_settled(terms, available, memory, multiply_all, result);
    });
    return py::make_tuple(results[0], results[1], asked);
  });
}

}  // namespace

void bind_products(py::module_& module) {
  module.def("interval_product", &interval_product, py::arg("values"), py::arg("dtype"), py::arg("chunk") = 1 << 30,
             py::arg("reversed") = false);
  module.def("compensated_product", &compensated_product, py::arg("values"), py::arg("dtype"), py::arg("chunk") = 1 << 30,
             py::arg("reversed") = false);
  module.def("exact_product", &exact_product, py::arg("values"), py::arg("dtype"), py::arg("capacity"),
             py::arg("chunk") = 1 << 30, py::arg("mode") = "nearest");
  module.def("product_until_settled", &product_until_settled, py::arg("values"), py::arg("dtype"),
             py::arg("available") = int64_t{1} << 40);
}

}  // namespace reprocuda::testing
