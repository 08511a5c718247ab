// Memory that nobody has written yet gets a pattern chosen by the seed, so that a kernel which reads it gives other bits
// under another seed.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "schedule.h"

namespace reprocuda::emulation {

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

// Present in every module that holds kernels, so that its thread-local segment exists and can be found.
inline thread_local uint64_t shared_memory_anchor[2];

struct MemoryRange {
  std::byte* begin = nullptr;
  size_t bytes = 0;
};

// The calling thread's copy of this module's thread-local segment: all its `__shared__` variables and nothing the
// emulator keeps (which is global).
inline MemoryRange static_shared_memory() {
  MemoryRange range;
  shared_memory_anchor[0] = 1;
  const auto visit = [](dl_phdr_info* info, size_t, void* data) -> int {
    auto* out = static_cast<MemoryRange*>(data);
    auto* begin = static_cast<std::byte*>(info->dlpi_tls_data);
    auto* anchor = reinterpret_cast<std::byte*>(shared_memory_anchor);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& header = info->dlpi_phdr[i];
      if (header.p_type != PT_TLS || begin == nullptr || anchor < begin || anchor >= begin + header.p_memsz) continue;
      *out = {begin, header.p_memsz};
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(visit, &range);
  return range;
}

inline void poison_static_shared(const PoisonPattern& pattern) {
  static thread_local MemoryRange cached;
  MemoryRange range = cached.bytes != 0 ? cached : static_shared_memory();
  pattern.fill(range.begin, range.bytes);
  cached = range;
}

// A block's dynamic shared memory, with a guard behind it.
class DynamicShared {
 public:
  explicit DynamicShared(size_t capacity) : memory_(capacity + kGuardBytes + kAlignment) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    begin_ = memory_.data() + (kAlignment - address % kAlignment) % kAlignment;
  }

  void prepare(size_t bytes, const PoisonPattern& pattern) {
    bytes_ = bytes;
    pattern.fill(begin_, bytes);
    std::memset(begin_ + bytes, kGuard, kGuardBytes);
  }
  void* data() const { return begin_; }
  bool guard_is_intact() const {
    for (size_t i = 0; i < kGuardBytes; ++i) {
      if (begin_[bytes_ + i] != std::byte{kGuard}) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kGuardBytes = 256;
  static constexpr size_t kAlignment = 128;
  static constexpr unsigned char kGuard = 0xa5;

  std::vector<std::byte> memory_;
  std::byte* begin_;
  size_t bytes_ = 0;
};

}  // namespace reprocuda::emulation
