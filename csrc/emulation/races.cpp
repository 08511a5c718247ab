#include "races.h"

#include <algorithm>

#include "block.h"

namespace reprocuda::emulation {

bool tracking_accesses = false;
volatile bool overdue = false;

void RaceDetector::start_launch(uint64_t num_blocks, bool enabled) {
  enabled_ = enabled;
  launch_generation_ = new_generation();
  num_blocks_ = num_blocks;
  any_fence_ = false;
  published_.clear();
  if (!enabled || num_blocks > kMaxBlocks) return;
  fences_.assign(num_blocks, {});
  seen_.assign(num_blocks, Knowledge(num_blocks, 0));
  heard_.assign(num_blocks, Knowledge(num_blocks, 0));
}

void RaceDetector::fence(const BlockClock& clock, uint32_t thread) {
  if (!enabled_ || num_blocks_ > kMaxBlocks) return;
  any_fence_ = true;
  const uint32_t block = clock.block();
  fences_[block].push_back({thread / kWarpSize, clock.epoch()});
  learn(seen_[block], heard_[block]);
  seen_[block][block] = static_cast<uint32_t>(fences_[block].size());
}

// Takes up what earlier atomics here published, and publishes what this block has seen.
void RaceDetector::atomic(uintptr_t address, uint32_t block) {
  if (!enabled_ || !any_fence_ || num_blocks_ > kMaxBlocks) return;
  Knowledge& published = published_[address];
  published.resize(num_blocks_, 0);
  learn(heard_[block], published);
  learn(published, seen_[block]);
}

void RaceDetector::learn(Knowledge& to, const Knowledge& from) {
  for (size_t b = 0; b < to.size(); ++b) to[b] = std::max(to[b], from[b]);
}

RaceDetector::Page& RaceDetector::page(uintptr_t address) {
  const uintptr_t number = address / kPageBytes;
  if (number == last_page_number_) return *last_page_;
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) page = std::make_unique<Page>();
  last_page_number_ = number;
  last_page_ = page.get();
  return *page;
}

void RaceDetector::access(uintptr_t address, size_t bytes, AccessKind kind, uintptr_t code) {
  Block& block = Block::current();
  if (overdue) block.fail(kOverdueMessage);
  if (!enabled_ || block.is_stack(address)) return;
  const bool shared = block.is_shared(address);
  if (shared) block.check_shared_bounds(address, bytes);
  if (!shared && num_blocks_ > kMaxBlocks) return;
  const BlockClock& clock = block.clock();
  const uint32_t thread = current_thread->linear;
  const uint32_t generation = shared ? clock.generation() : launch_generation_;
  const uint32_t block_clock = num_blocks_ > kMaxBlocks ? 0 : static_cast<uint32_t>(fences_[clock.block()].size());
  const Access now{clock.block(), thread, clock.epoch(), clock.lane_clock(thread), block_clock,
                   static_cast<uint32_t>(code - block.job().module_base), kind >= AccessKind::kAtomicRead};
  const auto visit = [&](Cell& cell, uintptr_t where, bool own) {
    if (cell.generation != generation) {
      if (!own) return;
      cell = {};
      cell.generation = generation;
    }
    check(cell, now, kind, where, shared);
    if (own) mark(cell, now, kind);
  };

  const uintptr_t end = address + bytes;
  while (address < end) {
    Page& page = this->page(address);
    const size_t offset = address % kPageBytes;
    Cell& word = page.words[offset / kWordBytes];
    const bool whole = address % kWordBytes == 0 && end - address >= kWordBytes;
    if (whole) {
      visit(word, address, true);
      for (size_t i = 0; page.bytes != nullptr && i < kWordBytes; ++i) visit(page.bytes[offset + i], address + i, false);
      address += kWordBytes;
    } else {
      if (page.bytes == nullptr) page.bytes = std::make_unique<Cell[]>(kPageBytes);
      visit(word, address, false);
      visit(page.bytes[offset], address, true);
      ++address;
    }
  }
}

bool RaceDetector::ordered(const Access& before, const Access& now) const {
  if (before.block != now.block) {
    // Some fence since then, of those that this block knows of, must come after the access in its own block.
    for (uint32_t f = seen_[now.block][before.block]; f > before.block_clock; --f) {
      const Fence& fence = fences_[before.block][f - 1];
      if (before.epoch < fence.epoch || before.thread / kWarpSize == fence.warp) return true;
    }
    return false;
  }
  if (before.thread == now.thread || before.epoch < now.epoch) return true;
  if (before.thread / kWarpSize != now.thread / kWarpSize) return false;
  return Block::current().clock().seen(now.thread, before.thread) >= before.lane_clock;
}

void RaceDetector::check(const Cell& cell, const Access& now, AccessKind kind, uintptr_t address, bool shared) const {
  const auto against = [&](const Access& before, const char* did) {
    if (before.thread != kNobody && !ordered(before, now)) report(before, did, now, kind, address, shared);
  };
  against(cell.write, "written");
  if (!now.atomic) against(cell.atomic, "updated atomically");
  if (kind == AccessKind::kRead || kind == AccessKind::kAtomicRead) return;
  for (const Access& read : cell.reads) {
    if (!(now.atomic && read.atomic)) against(read, "read");
  }
}

void RaceDetector::mark(Cell& cell, const Access& now, AccessKind kind) const {
  if (kind == AccessKind::kWrite) {
    cell.write = now;
  } else if (kind == AccessKind::kAtomic) {
    cell.atomic = now;
  } else {
    const bool same_as_last = cell.reads[0].thread == now.thread && cell.reads[0].block == now.block;
    if (!same_as_last) cell.reads[1] = cell.reads[0];
    cell.reads[0] = now;
  }
}

void RaceDetector::report(const Access& before, const char* did, const Access& now, AccessKind kind, uintptr_t address,
                          bool shared) const {
  constexpr const char* kDoes[] = {"reads", "writes", "atomically reads", "atomically updates"};
  char text[256];
  std::snprintf(text, sizeof text,
                "a race on %s memory at %#zx: thread %u of block %u %s what thread %u of block %u has %s, with nothing to "
                "order the two (code at offsets %#x and %#x)",
                shared ? "shared" : "global", static_cast<size_t>(address), now.thread, now.block,
                kDoes[static_cast<int>(kind)], before.thread, before.block, did, now.code, before.code);
  Block::current().fail(text);
}

namespace {

inline void judge(const void* address, size_t bytes, AccessKind kind, void* code) {
  tracking_accesses = false;
  RaceDetector::instance().access(reinterpret_cast<uintptr_t>(address), bytes, kind, reinterpret_cast<uintptr_t>(code));
  tracking_accesses = true;
}

}  // namespace
}  // namespace reprocuda::emulation

// What g++ calls under -fsanitize=thread.
#pragma GCC visibility push(default)
extern "C" {

using reprocuda::emulation::AccessKind;
using reprocuda::emulation::judge;
using reprocuda::emulation::tracking_accesses;

#define REPROCUDA_ACCESS_HOOK(name, bytes, kind)                                        \
  void __tsan_##name##bytes(void* p) {                                                  \
    if (tracking_accesses) judge(p, bytes, kind, __builtin_return_address(0));          \
  }                                                                                     \
  void __tsan_unaligned_##name##bytes(void* p) {                                        \
    if (tracking_accesses) judge(p, bytes, kind, __builtin_return_address(0));          \
  }
#define REPROCUDA_ACCESS_HOOKS(bytes)                                               \
  REPROCUDA_ACCESS_HOOK(read, bytes, AccessKind::kRead)                             \
  REPROCUDA_ACCESS_HOOK(write, bytes, AccessKind::kWrite)                           \
  REPROCUDA_ACCESS_HOOK(volatile_read, bytes, AccessKind::kAtomicRead)              \
  REPROCUDA_ACCESS_HOOK(volatile_write, bytes, AccessKind::kAtomic)
REPROCUDA_ACCESS_HOOKS(1)
REPROCUDA_ACCESS_HOOKS(2)
REPROCUDA_ACCESS_HOOKS(4)
REPROCUDA_ACCESS_HOOKS(8)
REPROCUDA_ACCESS_HOOKS(16)
#undef REPROCUDA_ACCESS_HOOKS
#undef REPROCUDA_ACCESS_HOOK

void __tsan_read_range(void* p, size_t bytes) {
  if (tracking_accesses) judge(p, bytes, AccessKind::kRead, __builtin_return_address(0));
}
void __tsan_write_range(void* p, size_t bytes) {
  if (tracking_accesses) judge(p, bytes, AccessKind::kWrite, __builtin_return_address(0));
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}

// std::atomic in host code beside the kernels; kernels have none.
#define REPROCUDA_ATOMIC_HOOKS(bits, type)                                                                        \
  type __tsan_atomic##bits##_load(const volatile type* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }   \
  void __tsan_atomic##bits##_store(volatile type* p, type v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }   \
  type __tsan_atomic##bits##_exchange(volatile type* p, type v, int) {                                            \
    return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);                                                           \
  }                                                                                                               \
  type __tsan_atomic##bits##_fetch_add(volatile type* p, type v, int) {                                           \
    return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                               \
  type __tsan_atomic##bits##_fetch_sub(volatile type* p, type v, int) {                                           \
    return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                               \
  type __tsan_atomic##bits##_fetch_or(volatile type* p, type v, int) {                                            \
    return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST);                                                             \
  }                                                                                                               \
  type __tsan_atomic##bits##_fetch_and(volatile type* p, type v, int) {                                           \
    return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST);                                                            \
  }                                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile type* p, type* e, type v, int, int) {                \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
  }                                                                                                               \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile type* p, type* e, type v, int, int) {                  \
    return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                       \
  }
REPROCUDA_ATOMIC_HOOKS(8, uint8_t)
REPROCUDA_ATOMIC_HOOKS(16, uint16_t)
REPROCUDA_ATOMIC_HOOKS(32, uint32_t)
REPROCUDA_ATOMIC_HOOKS(64, uint64_t)
#undef REPROCUDA_ATOMIC_HOOKS
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
}
#pragma GCC visibility pop
