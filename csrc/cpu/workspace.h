// Temporary memory that is reused between calls: a fresh page costs a fault of about a microsecond, more than the sums
// that use it. Thread-safe; at most kRetainedBytes stay cached in the process, what exceeds them goes back at once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace reprocuda::cpu {

inline constexpr size_t kRetainedBytes = size_t{32} << 20;
inline constexpr size_t kCacheLine = 64;
inline constexpr size_t kHugePage = size_t{2} << 20;

// Asks for huge pages under memory that is about to be written for the first time. A hint: small or unaligned ends are left
// as they are.
void prefer_huge_pages(void* memory, size_t bytes);

// A lease of uninitialised, page-aligned memory. Take it before a parallel region: it throws std::bad_alloc.
class Workspace {
 public:
  Workspace() = default;
  explicit Workspace(size_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept : data_(other.data_), size_(other.size_) { other.data_ = nullptr; }
  Workspace& operator=(Workspace&& other) noexcept;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

constexpr size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// Sums up the pieces of a layout, then hands them out: run the same sequence of `take` once on a null base to learn the
// size and once on the memory.
class Layout {
 public:
  explicit Layout(std::byte* base) : base_(base) {}
  template <class X>
  X* take(int64_t count) {
    std::byte* const piece = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(static_cast<size_t>(count) * sizeof(X), kCacheLine);
    return reinterpret_cast<X*>(piece);
  }
  size_t used() const { return used_; }

 private:
  std::byte* base_;
  size_t used_ = 0;
};

// Lease memory for the pieces that `arrange(Layout&)` takes.
template <class Arrange>
Workspace lease(Arrange&& arrange) {
  Layout measure(nullptr);
  arrange(measure);
  Workspace workspace(measure.used());
  Layout place(workspace.data());
  arrange(place);
  return workspace;
}

}  // namespace reprocuda::cpu
