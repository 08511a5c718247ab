// The vector kernels of extrema for every instruction set.
#include "extremum_kernel.h"

#define REPROCUDA_KERNELS "cpu/extrema/extremum.inl"
#include "../vectors/every_isa.inl"

namespace reprocuda::cpu {

template <class Order, class Position>
BestOfRows<Order, Position> best_of_rows() {
  return with_isa([](auto isa) { return best_of_rows<Order, Position>(isa); });
}

template <class Order>
PackingKernels<Order> packing_kernels() {
  return with_isa([](auto isa) { return packing_kernels<Order>(isa); });
}

// Every order and width of positions that a problem can have.
template BestOfRows<IntegerOrder<uint8_t>, int32_t> best_of_rows();
template BestOfRows<IntegerOrder<uint8_t>, int64_t> best_of_rows();
template BestOfRows<IntegerOrder<int8_t>, int32_t> best_of_rows();
template BestOfRows<IntegerOrder<int8_t>, int64_t> best_of_rows();
template BestOfRows<IntegerOrder<int16_t>, int32_t> best_of_rows();
template BestOfRows<IntegerOrder<int16_t>, int64_t> best_of_rows();
template BestOfRows<IntegerOrder<int32_t>, int32_t> best_of_rows();
template BestOfRows<IntegerOrder<int32_t>, int64_t> best_of_rows();
template BestOfRows<IntegerOrder<int64_t>, int32_t> best_of_rows();
template BestOfRows<IntegerOrder<int64_t>, int64_t> best_of_rows();
template BestOfRows<Float16Order, int32_t> best_of_rows();
template BestOfRows<Float16Order, int64_t> best_of_rows();
template BestOfRows<BFloat16Order, int32_t> best_of_rows();
template BestOfRows<BFloat16Order, int64_t> best_of_rows();
template BestOfRows<Float32Order, int32_t> best_of_rows();
template BestOfRows<Float32Order, int64_t> best_of_rows();
template BestOfRows<Float64Order, int32_t> best_of_rows();
template BestOfRows<Float64Order, int64_t> best_of_rows();
template PackingKernels<IntegerOrder<uint8_t>> packing_kernels();
template PackingKernels<IntegerOrder<int8_t>> packing_kernels();
template PackingKernels<IntegerOrder<int16_t>> packing_kernels();
template PackingKernels<IntegerOrder<int32_t>> packing_kernels();
template PackingKernels<Float16Order> packing_kernels();
template PackingKernels<BFloat16Order> packing_kernels();
template PackingKernels<Float32Order> packing_kernels();

}  // namespace reprocuda::cpu
