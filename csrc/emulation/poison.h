// Memory that nobody has written yet gets a pattern chosen by the seed, so that a kernel which reads it gives other bits
// under another seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "kernel_info.h"
#include "schedule.h"

namespace reprocuda::emulation {

struct TlsIndex {
  size_t module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);  // the dynamic linker's own

class PoisonPattern {
 public:
  PoisonPattern() = default;
  explicit PoisonPattern(Random& random) {
    constexpr uint64_t kWords[] = {~uint64_t{0}, 0, 0x7ff0000000000000, 0x3f8000003f800000, 0x0101010101010101};
    const uint32_t choice = random.below(std::size(kWords) + 2);
    word_ = choice < std::size(kWords) ? kWords[choice] : random.next();
  }

  void fill(void* memory, size_t bytes) const {
    auto* begin = static_cast<std::byte*>(memory);
    size_t done = 0;
    for (; done + sizeof word_ <= bytes; done += sizeof word_) std::memcpy(begin + done, &word_, sizeof word_);
    std::memcpy(begin + done, &word_, bytes - done);
  }

 private:
  uint64_t word_ = 0;
};

// The calling thread's copy of the thread-local segment of a kernel's module: all the `__shared__` variables there.
inline std::pair<std::byte*, size_t> static_shared_memory(const KernelInfo& kernel) {
  if (kernel.tls_module == 0) return {nullptr, 0};
  TlsIndex index{kernel.tls_module, 0};
  return {static_cast<std::byte*>(__tls_get_addr(&index)), kernel.tls_bytes};
}

// A block's dynamic shared memory, with a guard behind it.
class DynamicShared {
 public:
  static constexpr size_t kGuardBytes = 256;

  explicit DynamicShared(size_t capacity) : memory_(capacity + kGuardBytes + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

  void prepare(size_t bytes, const PoisonPattern& pattern) {
    bytes_ = bytes;
    pattern.fill(begin_, bytes);
    std::memset(begin_ + bytes, kGuard, kGuardBytes);
  }
  std::byte* data() const { return begin_; }
  size_t size() const { return bytes_; }
  bool guard_is_intact() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (begin_[bytes_ + i] != std::byte{kGuard}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kAlignment = 128;
  static constexpr unsigned char kGuard = 0xa5;

  std::vector<std::byte> memory_;
  std::byte* begin_;
  size_t bytes_ = 0;
};

}  // namespace reprocuda::emulation
