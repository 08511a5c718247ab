// The one place that knows which CUDA a kernel is compiled for: the real one, or the emulation that runs kernels on a CPU
// under chosen schedules. Kernels include this, csrc/numerics and csrc/problems, nothing else.
//
// Rules that make a kernel run in both: dynamic shared memory by dynamic_shared<T>(); an explicit __syncwarp where lanes
// exchange data through memory; every lane named in a mask takes part, so no early return before a full-mask collective;
// no __activemask, no cooperative groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#if defined(__CUDACC__)

#include <cuda_runtime.h>

namespace reprocuda {

using Dim3 = dim3;
using Stream = cudaStream_t;

inline void check_cuda(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(status));
}

// Enqueues a kernel; throws std::runtime_error when the launch itself is refused.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Dim3 grid, Dim3 block, size_t dynamic_shared_bytes, Stream stream,
            Arguments&&... arguments) {
  constexpr size_t kAlwaysGranted = 48 * 1024;
  if (dynamic_shared_bytes > kAlwaysGranted) {
    check_cuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(dynamic_shared_bytes)));
  }
  kernel<<<grid, block, dynamic_shared_bytes, stream>>>(static_cast<Parameters>(arguments)...);
  check_cuda(cudaGetLastError());
}

inline void memset_async(void* memory, int value, size_t bytes, Stream stream) {
  check_cuda(cudaMemsetAsync(memory, value, bytes, stream));
}

// The block's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ __forceinline__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char reprocuda_dynamic_shared_memory[];
  return reinterpret_cast<T*>(reprocuda_dynamic_shared_memory);
}

}  // namespace reprocuda

#elif defined(REPROCUDA_EMULATION)

#include "../emulation/cuda_emulation.h"

struct CUstream_st;

namespace reprocuda {

using Dim3 = dim3;
using Stream = CUstream_st*;  // never looked at: everything runs at once, in order

// Runs a kernel to its end; throws emulation::KernelError (a std::runtime_error) for what it must not do.
template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), Dim3 grid, Dim3 block, size_t dynamic_shared_bytes, Stream,
            Arguments&&... arguments) {
  static_assert(sizeof(std::tuple<Parameters...>) <= 4096, "CUDA takes 4 KiB of kernel parameters");
  using Call = emulation::Invocation<Parameters...>;
  const Call call{kernel, {static_cast<Parameters>(arguments)...}};
  emulation::launch_kernel(reinterpret_cast<const void*>(kernel), {grid.x, grid.y, grid.z}, {block.x, block.y, block.z},
                           dynamic_shared_bytes, &Call::run, &call);
}

inline void memset_async(void* memory, int value, size_t bytes, Stream) {
  emulation::count_launch("memset");
  if (bytes != 0) std::memset(memory, value, bytes);
}

// Kernels live in this namespace, so this is the printf they call: what they say is kept for the error message.
template <class... Arguments>
int printf(const char* format, Arguments... arguments) {
  char text[256];
  const int length = std::snprintf(text, sizeof text, format, arguments...);
  emulation::print(text);
  return length;
}

template <class T>
T* dynamic_shared() {
  return static_cast<T*>(emulation::current_block->dynamic_memory);
}

}  // namespace reprocuda

#else
#error "kernels need nvcc, or -DREPROCUDA_EMULATION"
#endif
