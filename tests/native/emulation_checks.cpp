// Kernels that test the emulator: some exercise one feature each, some are wrong on purpose and must be found out.
#include "emulation.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "kernels/device.cuh"

namespace reprocuda::testing {
namespace {

constexpr unsigned kFullMask = 0xffffffffu;
constexpr int kBlock = 128;

// --- wrong on purpose ---------------------------------------------------------------------------------------------------

// Correct but for the order of its additions: what the project exists to replace.
__global__ void scatter_by_float_atomics(const float* x, int n, float* out) {  // x [n], out [1]
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) atomicAdd(out, x[i]);
}

template <bool kHasBarrier>
__global__ void block_sums(const float* x, int, float* out) {  // x [gridDim.x * kBlock], out [gridDim.x]
  __shared__ float sums[kBlock];
  const unsigned t = threadIdx.x;
  sums[t] = x[blockIdx.x * kBlock + t];
  __syncthreads();
  for (unsigned half = kBlock / 2; half > 0; half /= 2) {
    if (t < half) sums[t] += sums[t + half];
    if (kHasBarrier) __syncthreads();
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}

// Lanes pass data through memory and rely on running in lockstep.
template <bool kHasBarrier>
__global__ void rotate_in_warp(const float* x, int, float* out) {  // x, out [gridDim.x * kBlock]
  __shared__ float slots[kBlock];
  const unsigned t = threadIdx.x;
  slots[t] = x[blockIdx.x * kBlock + t];
  if (kHasBarrier) __syncwarp();
  out[blockIdx.x * kBlock + t] = slots[(t & ~31u) + (t + 1) % 32];
}

__global__ void barrier_in_a_branch(const float*, int, float* out) {
  if (threadIdx.x < 40) __syncthreads();
  if (threadIdx.x == 0) *out = 1;
}

__global__ void two_barriers_in_two_branches(const float*, int, float* out) {
  if (threadIdx.x < 64) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  if (threadIdx.x == 0) *out = 1;
}

__global__ void shuffle_after_return(const float* x, int, float* out) {
  if (threadIdx.x % 32 >= 20) return;
  const float other = __shfl_xor_sync(kFullMask, x[threadIdx.x], 1);
  if (threadIdx.x == 0) *out = other;
}

__global__ void mask_without_oneself(const float* x, int, float* out) {
  const float other = __shfl_sync(0xffffu, x[threadIdx.x], 0);
  if (threadIdx.x == 0) *out = other;
}

__global__ void shuffle_from_outside_the_mask(const float* x, int, float* out) {
  if (threadIdx.x % 32 >= 16) return;
  const float other = __shfl_sync(0xffffu, x[threadIdx.x], 20);
  if (threadIdx.x == 0) *out = other;
}

__global__ void unwritten_shared_memory(const float*, int, float* out) {
  __shared__ float never_written[4];
  float* nor_these = dynamic_shared<float>();
  if (threadIdx.x == 0) {
    out[0] = never_written[2];
    out[1] = nor_these[3];
  }
}

__global__ void past_dynamic_shared_memory(const float*, int, float* out) {
  float* memory = dynamic_shared<float>();
  memory[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) out[0] = memory[3];
}

// The last block to arrive adds up what all have left. Without the first fence it may find nothing there, nor without the barrier
// that puts the fence behind another thread's write; without the second it may have looked before it knew that it was the last.
template <bool kBarrier, bool kFenceBefore, bool kFenceAfter>
__global__ void last_block_sums(const float* x, int, float* out) {  // out [2 + gridDim.x], starts as 0: sum, count, partials
  __shared__ bool is_last;
  if (threadIdx.x == kBlock - 1) out[2 + blockIdx.x] = x[blockIdx.x];
  if (kBarrier) __syncthreads();
  if (threadIdx.x == 0) {
    if (kFenceBefore) __threadfence();
    is_last = atomicAdd(reinterpret_cast<unsigned*>(out + 1), 1u) == gridDim.x - 1;
    if (kFenceAfter) __threadfence();
  }
  __syncthreads();
  if (is_last && threadIdx.x == 0) {
    float sum = 0;
    for (unsigned b = 0; b < gridDim.x; ++b) sum += out[2 + b];
    out[0] = sum;
  }
}

__global__ void waits_for_ever(const float*, int, float* out) {
  while (atomicAdd(reinterpret_cast<unsigned*>(out), 0u) == 0) {
  }
}

// Without a synchronisation point, and with no memory access but one that the compiler must repeat.
__global__ void loops_for_ever(const float* x, int, float* out) {
  while (*static_cast<const volatile float*>(x) > -1e30f) {
  }
  out[0] = 1;
}

__global__ void divides_by_zero(const float*, int n, float* out) { out[0] = static_cast<float>(7 / n); }

__global__ void reads_nowhere(const float*, int n, float* out) {
  out[0] = *reinterpret_cast<const volatile float*>(static_cast<uintptr_t>(n));
}

__global__ void loads_a_misaligned_vector(const float* x, int, float* out) {  // one of the two is
  const float4 first = *reinterpret_cast<const float4*>(x);
  const float4 second = *reinterpret_cast<const float4*>(x + 1);
  if (threadIdx.x == 0) out[0] = first.w + second.w;
}

__global__ void leaves_an_array(const float* x, int n, float* out) {
  __shared__ float sums[kBlock];
  sums[threadIdx.x + static_cast<unsigned>(n) / 512] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x == 0) out[0] = sums[0];
}

__global__ void shifts_too_far(const float*, int n, float* out) {
  out[threadIdx.x] = static_cast<float>(1u << (n / 16));
}

__global__ void converts_out_of_range(const float* x, int, float* out) {
  out[threadIdx.x] = static_cast<float>(static_cast<int>(x[0] * 0 + 1e20f));
}

__global__ void traps(const float*, int, float*) {
  if (threadIdx.x == 7) {
    printf("index %d is out of range\n", 42);
    __trap();
  }
}

__global__ void asserts(const float*, int n, float*) { assert(n < 0); }

using SmallKernel = void (*)(const float*, int, float*);

const std::map<std::string, SmallKernel> kKernels = {
    {"scatter_by_float_atomics", scatter_by_float_atomics},
    {"block_sums", block_sums<true>},
    {"block_sums_without_barrier", block_sums<false>},
    {"rotate_in_warp", rotate_in_warp<true>},
    {"rotate_in_warp_without_barrier", rotate_in_warp<false>},
    {"barrier_in_a_branch", barrier_in_a_branch},
    {"two_barriers_in_two_branches", two_barriers_in_two_branches},
    {"shuffle_after_return", shuffle_after_return},
    {"mask_without_oneself", mask_without_oneself},
    {"shuffle_from_outside_the_mask", shuffle_from_outside_the_mask},
    {"unwritten_shared_memory", unwritten_shared_memory},
    {"past_dynamic_shared_memory", past_dynamic_shared_memory},
    {"last_block_sums", last_block_sums<true, true, true>},
    {"last_block_sums_without_barrier", last_block_sums<false, true, true>},
    {"last_block_sums_without_fence_before", last_block_sums<true, false, true>},
    {"last_block_sums_without_fence_after", last_block_sums<true, true, false>},
    {"waits_for_ever", waits_for_ever},
    {"loops_for_ever", loops_for_ever},
    {"divides_by_zero", divides_by_zero},
    {"reads_nowhere", reads_nowhere},
    {"loads_a_misaligned_vector", loads_a_misaligned_vector},
    {"leaves_an_array", leaves_an_array},
    {"shifts_too_far", shifts_too_far},
    {"converts_out_of_range", converts_out_of_range},
    {"traps", traps},
    {"asserts", asserts},
};

using Floats = py::array_t<float, py::array::c_style | py::array::forcecast>;

Floats run_kernel(const std::string& name, const Floats& x, int64_t num_outputs, unsigned blocks, unsigned threads,
                  size_t dynamic_bytes) {
  Floats out(num_outputs);
  std::fill_n(out.mutable_data(), num_outputs, 0.0f);
  launch(kKernels.at(name), blocks, threads, dynamic_bytes, nullptr, x.data(), static_cast<int>(x.size()), out.mutable_data());
  return out;
}

// --- one feature each ---------------------------------------------------------------------------------------------------

template <class T>
__global__ void shuffles(const T* values, const int* arguments, int width, T* out) {  // [4, kBlock] out; arguments [kBlock]
  const unsigned t = threadIdx.x;
  const T value = values[t];
  const int delta = arguments[t / 32 * 32];  // uniform in a warp, as a distance
  out[t] = __shfl_sync(kFullMask, value, arguments[t], width);
  out[kBlock + t] = __shfl_up_sync(kFullMask, value, static_cast<unsigned>(delta), width);
  out[2 * kBlock + t] = __shfl_down_sync(kFullMask, value, static_cast<unsigned>(delta), width);
  out[3 * kBlock + t] = __shfl_xor_sync(kFullMask, value, delta, width);
}

template <class T>
py::array_t<T> run_shuffles(py::array_t<T, py::array::c_style> values, py::array_t<int, py::array::c_style> arguments,
                            int width) {
  py::array_t<T> out({4, kBlock});
  launch(shuffles<T>, 1, kBlock, 0, nullptr, values.data(), arguments.data(), width, out.mutable_data());
  return out;
}

// Votes and reductions of a half warp, a whole warp and a block, a row each.
__global__ void votes(const int* values, unsigned* out) {  // [kBlock] -> [12, kBlock]
  const unsigned t = threadIdx.x;
  const int value = values[t];
  int row = 0;
  const auto put = [&](auto result) { out[row++ * kBlock + t] = static_cast<unsigned>(result); };
  const unsigned half = t % 32 < 16 ? 0x0000ffffu : 0xffff0000u;
  put(__ballot_sync(half, value > 0));
  put(__any_sync(half, value > 0));
  put(__all_sync(half, value > 0));
  put(__match_any_sync(kFullMask, value));
  put(__reduce_add_sync(kFullMask, static_cast<unsigned>(value)));
  put(__reduce_min_sync(kFullMask, value));
  put(__reduce_max_sync(kFullMask, value));
  put(__reduce_or_sync(kFullMask, static_cast<unsigned>(value)));
  put(__reduce_max_sync(kFullMask, static_cast<unsigned>(value)));
  put(__syncthreads_or(value > 5));
  put(__syncthreads_and(value > 5));
  put(__syncthreads_count(value > 0));
}

py::array_t<unsigned> run_votes(py::array_t<int, py::array::c_style> values) {
  py::array_t<unsigned> out({12, kBlock});
  launch(votes, 1, kBlock, 0, nullptr, values.data(), out.mutable_data());
  return out;
}

// Every atomic, by all threads of the grid on one cell each, whose final value no schedule can change.
template <class T>
__global__ void atomics(const T* values, T* cells) {  // [gridDim.x * blockDim.x] -> [8]
  const T value = values[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(cells + 0, value);
  atomicMax(cells + 1, value);
  atomicMin(cells + 2, value);
  atomicOr(cells + 3, value);
  atomicAnd(cells + 4, value);
  atomicXor(cells + 5, value);
  T seen = cells[6] * 0;
  for (T expected = ~seen; expected != seen;) {  // an addition made of compare-and-swap
    expected = seen;
    seen = atomicCAS(cells + 6, expected, static_cast<T>(expected + value));
  }
  atomicExch(cells + 7, static_cast<T>(77));
}

template <class T>
py::array_t<T> run_atomics(py::array_t<T, py::array::c_style> values, unsigned blocks) {
  py::array_t<T> cells(8);
  std::fill_n(cells.mutable_data(), 8, T{0});
  cells.mutable_data()[4] = static_cast<T>(~T{0});
  launch(atomics<T>, blocks, static_cast<unsigned>(values.size()) / blocks, 0, nullptr, values.data(), cells.mutable_data());
  return cells;
}

__global__ void where_am_i(unsigned* out) {  // [blocks, threads, 4]
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  unsigned* mine = out + 4 * (block * blockDim.x * blockDim.y * blockDim.z + thread);
  mine[0] = block;
  mine[1] = threadIdx.x;
  mine[2] = threadIdx.y;
  mine[3] = threadIdx.z;
}

py::array_t<unsigned> run_where_am_i(std::array<unsigned, 3> grid, std::array<unsigned, 3> block) {
  const int64_t blocks = int64_t{grid[0]} * grid[1] * grid[2];
  const int64_t threads = int64_t{block[0]} * block[1] * block[2];
  py::array_t<unsigned> out({blocks, threads, int64_t{4}});
  launch(where_am_i, Dim3(grid[0], grid[1], grid[2]), Dim3(block[0], block[1], block[2]), 0, nullptr, out.mutable_data());
  return out;
}

__global__ void synchronise(int rounds) {
  for (int i = 0; i < rounds; ++i) __syncthreads();
}

// --- intrinsics ---------------------------------------------------------------------------------------------------------

using Doubles = py::array_t<double, py::array::c_style | py::array::forcecast>;

const std::map<std::string, double (*)(double, double)> kBinary = {
    {"__dadd_rn", __dadd_rn}, {"__dadd_rd", __dadd_rd}, {"__dadd_ru", __dadd_ru}, {"__dadd_rz", __dadd_rz},
    {"__dsub_rn", __dsub_rn}, {"__dsub_rd", __dsub_rd}, {"__dsub_ru", __dsub_ru}, {"__dmul_rn", __dmul_rn},
    {"__dmul_rd", __dmul_rd}, {"__dmul_ru", __dmul_ru}, {"__dmul_rz", __dmul_rz}, {"__ddiv_rn", __ddiv_rn},
    {"__ddiv_rd", __ddiv_rd}, {"__ddiv_ru", __ddiv_ru}, {"__ddiv_rz", __ddiv_rz},
};
const std::map<std::string, float (*)(float, float)> kFloatBinary = {
    {"__fadd_rn", __fadd_rn}, {"__fadd_rd", __fadd_rd}, {"__fadd_ru", __fadd_ru}, {"__fsub_rn", __fsub_rn},
    {"__fmul_rn", __fmul_rn}, {"__fmul_rd", __fmul_rd}, {"__fmul_ru", __fmul_ru}, {"__fdiv_rn", __fdiv_rn},
};
const std::map<std::string, float (*)(double)> kNarrowing = {
    {"__double2float_rn", __double2float_rn}, {"__double2float_rd", __double2float_rd},
    {"__double2float_ru", __double2float_ru}, {"__double2float_rz", __double2float_rz},
};
unsigned low(uint64_t a) { return static_cast<unsigned>(a); }
unsigned high(uint64_t a) { return static_cast<unsigned>(a >> 32); }

const std::map<std::string, uint64_t (*)(uint64_t, uint64_t)> kInteger = {
    {"__clz", [](uint64_t a, uint64_t) { return uint64_t(__clz(static_cast<int>(a))); }},
    {"__clzll", [](uint64_t a, uint64_t) { return uint64_t(__clzll(static_cast<long long>(a))); }},
    {"__ffs", [](uint64_t a, uint64_t) { return uint64_t(__ffs(static_cast<int>(a))); }},
    {"__ffsll", [](uint64_t a, uint64_t) { return uint64_t(__ffsll(static_cast<long long>(a))); }},
    {"__popc", [](uint64_t a, uint64_t) { return uint64_t(__popc(low(a))); }},
    {"__popcll", [](uint64_t a, uint64_t) { return uint64_t(__popcll(a)); }},
    {"__brev", [](uint64_t a, uint64_t) { return uint64_t{__brev(low(a))}; }},
    {"__brevll", [](uint64_t a, uint64_t) { return uint64_t{__brevll(a)}; }},
    {"__umul64hi", [](uint64_t a, uint64_t b) { return uint64_t{__umul64hi(a, b)}; }},
    {"__mul64hi", [](uint64_t a, uint64_t b) { return uint64_t(__mul64hi(int64_t(a), int64_t(b))); }},
    {"__umulhi", [](uint64_t a, uint64_t b) { return uint64_t{__umulhi(low(a), low(b))}; }},
    {"__funnelshift_l", [](uint64_t a, uint64_t b) { return uint64_t{__funnelshift_l(low(a), high(a), low(b))}; }},
    {"__funnelshift_r", [](uint64_t a, uint64_t b) { return uint64_t{__funnelshift_r(low(a), high(a), low(b))}; }},
};

template <class Result, class Argument, class Function, class... Rest>
py::array_t<Result> apply(Function function, py::array_t<Argument, py::array::c_style | py::array::forcecast> a,
                          const Rest&... rest) {
  py::array_t<Result> out(a.size());
  for (py::ssize_t i = 0; i < a.size(); ++i) out.mutable_data()[i] = function(a.data()[i], rest.data()[i]...);
  return out;
}

template <class Map>
std::vector<std::string> names(const Map& map) {
  std::vector<std::string> result;
  for (const auto& [name, function] : map) result.push_back(name);
  return result;
}

}  // namespace

void bind_checks(py::module_& module) {
  module.def("run_kernel", &run_kernel, py::arg("name"), py::arg("x"), py::arg("num_outputs"), py::arg("blocks") = 4,
             py::arg("threads") = kBlock, py::arg("dynamic_bytes") = 0);
  module.def("shuffles", &run_shuffles<int>);
  module.def("shuffles", &run_shuffles<unsigned>);
  module.def("shuffles", &run_shuffles<long long>);
  module.def("shuffles", &run_shuffles<unsigned long long>);
  module.def("shuffles", &run_shuffles<float>);
  module.def("shuffles", &run_shuffles<double>);
  module.def("votes", &run_votes);
  module.def("atomics", &run_atomics<int>);
  module.def("atomics", &run_atomics<unsigned>);
  module.def("atomics", &run_atomics<unsigned long long>);
  module.def("where_am_i", &run_where_am_i);
  module.def("synchronise", [](unsigned blocks, unsigned threads, int rounds) {
    launch(synchronise, blocks, threads, 0, nullptr, rounds);
  });
  using DoublePair = py::array_t<double, py::array::c_style | py::array::forcecast>;
  using FloatPair = Floats;
  using Words = py::array_t<uint64_t, py::array::c_style | py::array::forcecast>;
  module.def("double_intrinsic", [](const std::string& name, DoublePair a, DoublePair b) {
    return apply<double, double>(kBinary.at(name), a, b);
  });
  module.def("float_intrinsic", [](const std::string& name, FloatPair a, FloatPair b) {
    return apply<float, float>(kFloatBinary.at(name), a, b);
  });
  module.def("narrowing_intrinsic", [](const std::string& name, Doubles a) {
    return apply<float, double>(kNarrowing.at(name), a);
  });
  module.def("integer_intrinsic", [](const std::string& name, Words a, Words b) {
    return apply<uint64_t, uint64_t>(kInteger.at(name), a, b);
  });
  module.attr("DOUBLE_INTRINSICS") = names(kBinary);
  module.attr("FLOAT_INTRINSICS") = names(kFloatBinary);
  module.attr("NARROWING_INTRINSICS") = names(kNarrowing);
  module.attr("INTEGER_INTRINSICS") = names(kInteger);
}

}  // namespace reprocuda::testing
