// What a launcher needs to know of the world: where to queue its kernels and where temporary memory comes from.
//
// Launchers never synchronise with the device, never read device memory on the host, use no stream but this one and ask for
// memory only through it, so a call can be captured in a CUDA graph. They know nothing of torch: the operators pass torch's
// current stream and caching allocator, a plain driver cudaMalloc, the emulation malloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

struct CUstream_st;

namespace reprocuda::cuda {

struct Context {
  CUstream_st* stream = nullptr;
  int num_sms = 1;
  int compute_capability = 80;  // 10 * major + minor
  // Device memory, aligned to 256 bytes, that stays valid until everything this call queues on `stream` has run. It is
  // released by whoever made the context. Returns nullptr when memory is refused.
  void* (*allocate)(void* owner, size_t bytes) = nullptr;
  void* owner = nullptr;

  // [count] uninitialised elements of temporary device memory
  template <class T>
  T* temporary(int64_t count) const {
    if (count <= 0) {
      return nullptr;
    }
    void* memory = allocate(owner, static_cast<size_t>(count) * sizeof(T));
    if (memory == nullptr) {
      throw std::runtime_error("reprocuda: " + std::to_string(static_cast<size_t>(count) * sizeof(T)) +
                               " bytes of temporary device memory were refused");
    }
    return static_cast<T*>(memory);
  }
};

}  // namespace reprocuda::cuda
