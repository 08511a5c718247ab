// "Device memory" that ends where it says: every buffer lies against an inaccessible page, at its end or at its beginning,
// and the few bytes that alignment leaves on the other side are checked when it is released.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

namespace reprocuda::emulation {

class GuardedMemory {
 public:
  // `alignment` of the beginning, a power of two up to a page. At the end, what alignment leaves over is filled with a
  // pattern; at the beginning nothing is left over.
  GuardedMemory(size_t bytes, size_t alignment, bool against_end) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    inside_ = (bytes + page - 1) / page * page;
    whole_ = inside_ + 2 * page;
    void* memory = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    map_ = static_cast<std::byte*>(memory);
    begin_ = map_ + page;
    if (inside_ == 0) return;
    mprotect(begin_, inside_, PROT_READ | PROT_WRITE);
    std::memset(begin_, kFill, inside_);
    if (against_end) begin_ += (inside_ - bytes) & ~(alignment - 1);
  }
  GuardedMemory(GuardedMemory&& other) noexcept
      : map_(std::exchange(other.map_, nullptr)), begin_(other.begin_), bytes_(other.bytes_), inside_(other.inside_),
        whole_(other.whole_) {}
  GuardedMemory& operator=(GuardedMemory&&) = delete;
  ~GuardedMemory() {
    if (map_ != nullptr) munmap(map_, whole_);
  }

  std::byte* data() const { return begin_; }
  size_t size() const { return bytes_; }

  void forbid_writes() const {
    if (inside_ != 0) mprotect(page_begin(), inside_, PROT_READ);
  }

  // Whether the bytes around the buffer are still as they were.
  bool is_intact() const {
    for (const std::byte* p = page_begin(); p < page_begin() + inside_; ++p) {
      const bool inside = p >= begin_ && p < begin_ + bytes_;
      if (!inside && *p != std::byte{kFill}) return false;
    }
    return true;
  }

 private:
  static constexpr unsigned char kFill = 0xd7;

  std::byte* page_begin() const { return map_ + (whole_ - inside_) / 2; }

  std::byte* map_ = nullptr;
  std::byte* begin_ = nullptr;
  size_t bytes_ = 0;
  size_t inside_ = 0;  // accessible bytes, whole pages
  size_t whole_ = 0;
};

}  // namespace reprocuda::emulation
