// Binds csrc/numerics on NumPy arrays. Results of any dtype come back as uint64 arrays of bits, so that -0, NaN and the 16-bit
// formats need no special case. `mode` names the floating-point state in which the function under test runs.
#include "numerics.h"

#include <pybind11/stl.h>

#include "numerics/double_double.h"
#include "numerics/exact_sum.h"
#include "numerics/fixed_point.h"
#include "numerics/interval.h"

namespace reprocuda::testing {
namespace {

template <class F>
auto with_format(const std::string& name, F&& f) {
  if (name == "Fp32Terms") return f(Tag<Fp32Terms>());
  if (name == "Fp32Products") return f(Tag<Fp32Products>());
  if (name == "Fp64Terms") return f(Tag<Fp64Terms>());
  if (name == "Fp64Products") return f(Tag<Fp64Products>());
  throw std::invalid_argument("unknown format " + name);
}

Words round_to_dtype(Doubles values, const std::string& dtype, const std::string& mode) {
  Words out(values.size());
  const double* x = values.data();
  uint64_t* bits = out.mutable_data();
  with_dtype(dtype, [&](auto tag) {
    const FloatingPointMode scope(mode);
    for (py::ssize_t i = 0; i < values.size(); ++i) bits[i] = bits_of(round_to<typename decltype(tag)::type>(x[i]));
  });
  return out;
}

Doubles widen(Words values, const std::string& dtype, const std::string& mode) {
  Doubles out(values.size());
  with_dtype(dtype, [&](auto tag) {
    const FloatingPointMode scope(mode);
    for (py::ssize_t i = 0; i < values.size(); ++i) {
      out.mutable_data()[i] = to_double(from_bits<typename decltype(tag)::type>(values.data()[i]));
    }
  });
  return out;
}

// The software operation, by name.
double directed(const std::string& name, double a, double b) {
  if (name == "add_rd") return directed_add<Rounding::kDown>(a, b);
  if (name == "add_ru") return directed_add<Rounding::kUp>(a, b);
  if (name == "div_rd") return directed_divide<Rounding::kDown>(a, b);
  if (name == "div_ru") return directed_divide<Rounding::kUp>(a, b);
  throw std::invalid_argument("unknown operation " + name);
}

// The machine's own, in the mode that the name asks for. Volatile, because compilers know nothing of modes.
double machine_directed(const std::string& name, double a, double b) {
  const FloatingPointMode scope(name.substr(4) == "rd" ? "down" : "up");
  volatile double x = a;
  volatile double y = b;
  volatile double result = name[0] == 'a' ? x + y : x / y;
  return result;
}

template <double (*kOperation)(const std::string&, double, double)>
Doubles for_each_pair(const std::string& name, Doubles a, Doubles b) {
  Doubles out(a.size());
  for (py::ssize_t i = 0; i < a.size(); ++i) out.mutable_data()[i] = kOperation(name, a.data()[i], b.data()[i]);
  return out;
}

py::tuple certify_ends(Doubles lo, Doubles hi, const std::string& dtype, int64_t count, const std::string& mode) {
  Flags certified(lo.size());
  Words bits(lo.size());
  with_dtype(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const FloatingPointMode scope(mode);
    for (py::ssize_t i = 0; i < lo.size(); ++i) {
      T result = {};
      certified.mutable_data()[i] = count == 1 ? certify(lo.data()[i], hi.data()[i], &result)
                                               : certify_mean(lo.data()[i], hi.data()[i], count, &result);
      bits.mutable_data()[i] = bits_of(result);
    }
  });
  return py::make_tuple(certified, bits);
}

// Both ends of each row. "upward" stands for a vector loop that keeps (hi, -lo) in one rounding mode.
py::tuple interval_ends(Doubles values, int64_t chunk, bool reversed, bool upward) {
  const int64_t rows = values.shape(0);
  const int64_t terms = values.shape(1);
  Doubles lo(rows);
  Doubles hi(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = values.data() + row * terms;
    Interval ends = Interval::empty();
    if (upward) {
      const FloatingPointMode scope("up");
      volatile double high = -0.0;
      volatile double negated_low = 0.0;
      for (int64_t i = 0; i < terms; ++i) {
        high = high + x[i];
        negated_low = negated_low + -x[i];
      }
      ends = {-negated_low, high};
    } else {
      ends = reduce_in_parts<Interval>(terms, chunk, reversed, [&](Interval& part, int64_t i) { part.add(x[i]); });
    }
    lo.mutable_data()[row] = ends.lo;
    hi.mutable_data()[row] = ends.hi;
  }
  return py::make_tuple(lo, hi);
}

// `weights` is empty, or as large as `values` [rows, terms].
py::tuple compensated_sum(Doubles values, Doubles weights, int64_t count, int64_t chunk, bool reversed) {
  const int64_t rows = values.shape(0);
  const int64_t terms = values.shape(1);
  Flags certified(rows);
  Words bits(rows);
  for (int64_t row = 0; row < rows; ++row) {
    const double* x = values.data() + row * terms;
    const double* w = weights.size() == 0 ? nullptr : weights.data() + row * terms;
    bool inexact = false;
    const auto add = [&](CompensatedSum& part, int64_t i) {
      if (w == nullptr) part.add(x[i]);
      else part.add_product(w[i], x[i], &inexact);
    };
    const auto total = reduce_in_parts<CompensatedSum>(terms, chunk, reversed, add);
    double result = 0.0;
    const bool proven = count == 1 ? total.certify(&result) : total.certify_mean(count, &result);
    certified.mutable_data()[row] = proven && (!inexact || !is_finite(total.scaled));
    bits.mutable_data()[row] = bits_of(result);
  }
  return py::make_tuple(certified, bits);
}

// All rows share one pool, limbs strided by the number of rows; parts of `chunk` terms are merged as above, and a part is
// normalised after every `normalize_every` terms.
Words exact_sum(Doubles values, Doubles weights, const std::string& format, const std::string& dtype, int64_t count,
                int64_t chunk, int64_t normalize_every, const std::string& mode) {
  const int64_t rows = values.shape(0);
  const int64_t terms = values.shape(1);
  Words bits(rows);
  with_format(format, [&](auto format_tag) {
    using Format = typename decltype(format_tag)::type;
    std::vector<int64_t> pool(Format::kLimbs * rows, 0);
    std::vector<uint32_t> flags(rows, 0);
    const FloatingPointMode scope(mode);
    for (int64_t row = 0; row < rows; ++row) {
      const ExactSum<Format> total = {pool.data() + row, rows, &flags[row]};
      for (int64_t begin = 0; begin < terms; begin += chunk) {
        ExactAccumulator<Format> part;
        part.view().clear();
        for (int64_t i = begin; i < std::min(terms, begin + chunk); ++i) {
          const double x = values.data()[row * terms + i];
          if constexpr (Format::kSignificandBits == 48 || Format::kSignificandBits == 106) {
            if (weights.size() != 0) part.view().add_product(weights.data()[row * terms + i], x);
            else part.view().add(x);
          } else {
            part.view().add(x);
          }
          if ((i + 1) % normalize_every == 0) part.view().normalize();
        }
        total.merge(part.view());
      }
    }
    with_dtype(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      for (int64_t row = 0; row < rows; ++row) {
        const ExactSum<Format> total = {pool.data() + row, rows, &flags[row]};
        bits.mutable_data()[row] =
            bits_of(count == 1 ? total.template round<T>() : total.template round_mean<T>(count));
      }
    });
  });
  return bits;
}

// As if w * x had been added `times` times without a normalize, and the outcome then doubled `doublings` times by merging it,
// normalised, with itself. Rounds the sum over 2^doublings.
uint64_t exact_repeated(double w, double x, const std::string& format, int64_t times, int doublings) {
  uint64_t bits = 0;
  with_format(format, [&](auto tag) {
    using Format = typename decltype(tag)::type;
    ExactAccumulator<Format> total;
    total.view().clear();
    if constexpr (Format::kSignificandBits == 106 || Format::kSignificandBits == 48) total.view().add_product(w, x);
    else total.view().add(w * x);
    for (int64_t& limb : total.storage) limb *= times;
    for (int i = 0; i < doublings; ++i) {
      total.view().normalize();
      const ExactAccumulator<Format> copy = total;
      total.view().merge(ExactAccumulator<Format>(copy).view());
    }
    bits = bits_of(total.view().template round_mean<double>(int64_t{1} << doublings));
  });
  return bits;
}

// One integer high * 2^64 + low, times 2^exponent, plus the double `initial`.
Words exact_fixed(Ints high, Words low, Ints exponent, Doubles initial, const std::string& format,
                  const std::string& dtype) {
  Words bits(high.size());
  with_format(format, [&](auto format_tag) {
    with_dtype(dtype, [&](auto tag) {
      ExactAccumulator<typename decltype(format_tag)::type> total;
      for (py::ssize_t i = 0; i < high.size(); ++i) {
        total.view().clear();
        total.view().add_fixed({high.data()[i], low.data()[i]}, static_cast<int>(exponent.data()[i]));
        total.view().add(initial.data()[i]);
        bits.mutable_data()[i] = bits_of(total.view().template round<typename decltype(tag)::type>());
      }
    });
  });
  return bits;
}

Words round_fixed_point(Ints high, Words low, Ints exponent, bool sticky, const std::string& dtype,
                        const std::string& mode) {
  Words bits(high.size());
  with_dtype(dtype, [&](auto tag) {
    const FloatingPointMode scope(mode);
    for (py::ssize_t i = 0; i < high.size(); ++i) {
      bits.mutable_data()[i] = bits_of(round_fixed<typename decltype(tag)::type>(
          {high.data()[i], low.data()[i]}, static_cast<int>(exponent.data()[i]), sticky, false));
    }
  });
  return bits;
}

py::tuple certify_fixed_point(Ints high, Words low, Ints exponent, Ints below, Ints above, bool all_negative_zero,
                              const std::string& dtype) {
  Flags certified(high.size());
  Words bits(high.size());
  with_dtype(dtype, [&](auto tag) {
    for (py::ssize_t i = 0; i < high.size(); ++i) {
      typename decltype(tag)::type result = {};
      certified.mutable_data()[i] =
          certify_fixed({high.data()[i], low.data()[i]}, static_cast<int>(exponent.data()[i]), below.data()[i],
                        above.data()[i], all_negative_zero, &result);
      bits.mutable_data()[i] = bits_of(result);
    }
  });
  return py::make_tuple(certified, bits);
}

py::tuple truncate_scaled_to(uint64_t significand, int shift, bool negative, int unit_bits) {
  bool cut_off = false;
  const Fixed128 value = truncate_scaled(significand, shift, negative, unit_bits, &cut_off);
  return py::make_tuple(cut_off, value.high, value.low);
}

py::tuple add_exactly(int64_t high, uint64_t low, double x, int exponent) {
  Fixed128 value = {high, low};
  const bool fits = value.add_exactly(x, exponent);
  return py::make_tuple(fits, value.high, value.low);
}

}  // namespace
}  // namespace reprocuda::testing

PYBIND11_MODULE(reprocuda_numerics, module) {
  using namespace reprocuda::testing;
  bind_elementary(module);
  bind_products(module);
  module.def("round_to", &round_to_dtype, py::arg("values"), py::arg("dtype"), py::arg("mode") = "nearest");
  module.def("widen", &widen, py::arg("bits"), py::arg("dtype"), py::arg("mode") = "nearest");
  module.def("directed", &for_each_pair<directed>);
  module.def("machine_directed", &for_each_pair<machine_directed>);
  module.def("certify", &certify_ends, py::arg("lo"), py::arg("hi"), py::arg("dtype"), py::arg("count") = 1,
             py::arg("mode") = "nearest");
  module.def("interval_ends", &interval_ends, py::arg("values"), py::arg("chunk") = 1 << 30,
             py::arg("reversed") = false, py::arg("upward") = false);
  module.def("compensated_sum", &compensated_sum, py::arg("values"), py::arg("weights") = Doubles(0),
             py::arg("count") = 1, py::arg("chunk") = 1 << 30, py::arg("reversed") = false);
  module.def("exact_sum", &exact_sum, py::arg("values"), py::arg("weights") = Doubles(0), py::arg("format"),
             py::arg("dtype"), py::arg("count") = 1, py::arg("chunk") = 1 << 30, py::arg("normalize_every") = 1 << 30,
             py::arg("mode") = "nearest");
  module.def("exact_repeated", &exact_repeated, py::arg("w"), py::arg("x"), py::arg("format"), py::arg("times"),
             py::arg("doublings") = 0);
  module.def("exact_fixed", &exact_fixed);
  module.def("round_fixed", &round_fixed_point, py::arg("high"), py::arg("low"), py::arg("exponent"),
             py::arg("sticky"), py::arg("dtype"), py::arg("mode") = "nearest");
  module.def("certify_fixed", &certify_fixed_point);
  module.def("truncate_scaled", &truncate_scaled_to);
  module.def("add_exactly", &add_exactly);
}
