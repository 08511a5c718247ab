// scatter_reduce and index_reduce: the ways of scatter_add and index_add, with another reduction than the sum.
#pragma once

#include "index_add.h"
#include "scatter_add.h"
#include "text.h"

namespace reprocuda {

inline constexpr const char* kReduceSchemas[] = {
    "scatter_reduce(Tensor self, int dim, Tensor index, Tensor src, str reduce, bool include_self=True) -> Tensor",
    "scatter_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor src, str reduce, bool include_self=True) -> ()",
    "scatter_reduce_out(Tensor self, int dim, Tensor index, Tensor src, str reduce, bool include_self, Tensor(a!) out) -> ()",
    "index_reduce(Tensor self, int dim, Tensor index, Tensor source, str reduce, bool include_self=True) -> Tensor",
    "index_reduce_(Tensor(a!) self, int dim, Tensor index, Tensor source, str reduce, bool include_self=True) -> ()",
    "index_reduce_out(Tensor self, int dim, Tensor index, Tensor source, str reduce, bool include_self, Tensor(a!) out) -> ()",
};

template <class Backend>
Tensor scatter_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, StringHandle reduce,
                      bool include_self) {
  constexpr const char* op = "scatter_reduce";
  return scatter_fresh<Backend>(self, dim, index, src, combination(self, take_string(reduce), include_self, op), op);
}

template <class Backend>
void scatter_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, StringHandle reduce,
                     bool include_self) {
  constexpr const char* op = "scatter_reduce_";
  scatter_in_place<Backend>(self, dim, index, src, combination(self, take_string(reduce), include_self, op), op);
}

template <class Backend>
void scatter_reduce_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& src, StringHandle reduce,
                        bool include_self, const Tensor& out) {
  constexpr const char* op = "scatter_reduce";
  scatter_given<Backend>(self, dim, index, src, out, combination(self, take_string(reduce), include_self, op), op);
}

// torch has index_add for the sum.
inline Combination index_combination(const Tensor& self, const std::string& reduce, bool include_self, const char* op) {
  check<Irregular>(reduce != "sum", op, "(): reduce must be one of mean, prod, amax, amin");
  check<Irregular>(self.scalar_type() != ScalarType::Bool, op, "(): bools have an order and products in scatter_reduce only");
  check<Irregular>(!require_element_type(self, op).is_complex, op, "(): complex numbers have a mean in scatter_reduce only");
  return combination(self, reduce, include_self, op);
}

template <class Backend>
Tensor index_reduce(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, StringHandle reduce,
                    bool include_self) {
  constexpr const char* op = "index_reduce";
  const auto combination = index_combination(self, take_string(reduce), include_self, op);
  return index_rows_fresh<Backend>(self, dim, index, source, {}, combination, op);
}

template <class Backend>
void index_reduce_(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, StringHandle reduce,
                   bool include_self) {
  constexpr const char* op = "index_reduce_";
  const auto combination = index_combination(self, take_string(reduce), include_self, op);
  index_rows_in_place<Backend>(self, dim, index, source, {}, combination, op);
}

template <class Backend>
void index_reduce_out(const Tensor& self, int64_t dim, const Tensor& index, const Tensor& source, StringHandle reduce,
                      bool include_self, const Tensor& out) {
  constexpr const char* op = "index_reduce";
  const auto combination = index_combination(self, take_string(reduce), include_self, op);
  index_rows_given<Backend>(self, dim, index, source, out, {}, combination, op);
}

template <class Backend>
void register_reduce(torch::stable::detail::StableLibrary& library) {
  library.impl("scatter_reduce", TORCH_BOX(&scatter_reduce<Backend>));
  library.impl("scatter_reduce_", TORCH_BOX(&scatter_reduce_<Backend>));
  library.impl("scatter_reduce_out", TORCH_BOX(&scatter_reduce_out<Backend>));
  library.impl("index_reduce", TORCH_BOX(&index_reduce<Backend>));
  library.impl("index_reduce_", TORCH_BOX(&index_reduce_<Backend>));
  library.impl("index_reduce_out", TORCH_BOX(&index_reduce_out<Backend>));
}

}  // namespace reprocuda
