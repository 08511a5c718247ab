#include "workspace.h"

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace reprocuda::cpu {
namespace {

constexpr size_t kPage = 4096;

struct Block {
  std::byte* data = nullptr;
  size_t size = 0;
};

Block allocate(size_t bytes) {
  const bool huge = bytes >= 2 * kHugePage;
  const size_t alignment = huge ? kHugePage : kPage;
  const size_t size = round_up(bytes, huge ? kHugePage : kPage);
  void* const data = std::aligned_alloc(alignment, size);
  if (data == nullptr) throw std::bad_alloc();
  prefer_huge_pages(data, size);
  return {static_cast<std::byte*>(data), size};
}

// Blocks that nobody uses now. Slots are ordered from the least to the most recently returned.
class Cache {
 public:
  // The smallest cached block that holds `bytes`.
  Block acquire(size_t bytes) {
    const std::lock_guard lock(mutex_);
    int best = -1;
    for (int slot = 0; slot < count_; ++slot) {
      const size_t size = blocks_[slot].size;
      if (size >= bytes && (best < 0 || size < blocks_[best].size)) best = slot;
    }
    if (best < 0) return {};
    return remove(best);
  }

  void release(Block block) {
    Block evicted[kSlots];
    int num_evicted = 0;
    {
      const std::lock_guard lock(mutex_);
      if (block.size > kRetainedBytes) {
        evicted[num_evicted++] = block;
      } else {
        while (count_ > 0 && (count_ == kSlots || total_ + block.size > kRetainedBytes)) evicted[num_evicted++] = remove(0);
        blocks_[count_++] = block;
        total_ += block.size;
      }
    }
    for (int i = 0; i < num_evicted; ++i) std::free(evicted[i].data);
  }

 private:
  static constexpr int kSlots = 32;

  Block remove(int slot) {
    const Block block = blocks_[slot];
    for (int next = slot + 1; next < count_; ++next) blocks_[next - 1] = blocks_[next];
    --count_;
    total_ -= block.size;
    return block;
  }

  std::mutex mutex_;
  Block blocks_[kSlots];
  int count_ = 0;
  size_t total_ = 0;
};

// Never destroyed: threads of the host may still return blocks while the process ends.
Cache& cache() {
  static Cache* const instance = new Cache;
  return *instance;
}

}  // namespace

void prefer_huge_pages([[maybe_unused]] void* memory, [[maybe_unused]] size_t bytes) {
#if defined(__linux__)
  const uintptr_t begin = round_up(reinterpret_cast<uintptr_t>(memory), kHugePage);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / kHugePage * kHugePage;
  if (begin + kHugePage < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

Workspace::Workspace(size_t bytes) {
  if (bytes == 0) return;
  Block block = cache().acquire(bytes);
  if (block.data == nullptr) block = allocate(bytes);
  data_ = block.data;
  size_ = block.size;
}

Workspace::~Workspace() {
  if (data_ != nullptr) cache().release({data_, size_});
}

Workspace& Workspace::operator=(Workspace&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace reprocuda::cpu
