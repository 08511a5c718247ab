// Finds unsynchronised access to shared and global memory, whatever the schedule happened to make of it.
//
// Kernels are compiled with -fsanitize=thread, but the hooks it calls are ours (races.cpp): who may see what follows from
// CUDA's barriers, warp collectives, fences and atomics, of which the compiler's own runtime knows nothing. Without that flag
// the hooks are never called and nothing is checked.
//
// Two accesses to one byte, at least one of them a write, not both atomic, must be ordered:
//   - in one block, by a __syncthreads between them, or, in one warp, by collectives that name both lanes;
//   - across blocks, by a __threadfence after the first, then an atomic of that block, then an atomic on the same address by
//     the other block, then a __threadfence there: relaxed atomics between fences, in PTX's words. The first fence stands
//     for all that is ordered before it: accesses of its own warp, and those of its block before the last __syncthreads.
// A volatile access counts as a relaxed atomic, as in PTX: never torn, but it orders nothing.
// Best effort: the second fence counts for its whole block, the first for its whole warp, and of many readers only the last
// two are remembered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace reprocuda::emulation {

// True while kernel code runs, false inside the emulator: accesses are judged only then.
extern bool tracking_accesses;

// Set when the running kernel is to be ended at its next access.
extern volatile bool overdue;
inline constexpr const char* kOverdueMessage = "seconds without a synchronisation point: a loop without end";

enum class AccessKind : uint8_t { kRead, kWrite, kAtomicRead, kAtomic };

// The order that one block's threads have established among themselves.
class BlockClock {
 public:
  void start(uint32_t block, uint32_t generation) {
    block_ = block;
    generation_ = generation;
    epoch_ = 1;
    if (lanes_ == nullptr) lanes_ = std::make_unique<Lanes[]>(kWarps);
    std::memset(lanes_.get(), 0, sizeof(Lanes) * kWarps);
    for (int w = 0; w < kWarps; ++w) {
      for (int lane = 0; lane < kLanes; ++lane) lanes_[w].seen[lane][lane] = 1;
    }
  }

  void barrier() { ++epoch_; }

  void join(unsigned warp, unsigned mask) {
    Lanes& lanes = lanes_[warp];
    uint32_t joint[kLanes] = {};
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const uint32_t* seen = lanes.seen[__builtin_ctz(rest)];
      for (int lane = 0; lane < kLanes; ++lane) joint[lane] = seen[lane] > joint[lane] ? seen[lane] : joint[lane];
    }
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const unsigned lane = __builtin_ctz(rest);
      std::memcpy(lanes.seen[lane], joint, sizeof joint);
      ++lanes.seen[lane][lane];
    }
  }

  uint32_t block() const { return block_; }
  uint32_t generation() const { return generation_; }
  uint32_t epoch() const { return epoch_; }
  uint32_t lane_clock(unsigned thread) const { return lanes_[thread / kLanes].seen[thread % kLanes][thread % kLanes]; }
  uint32_t seen(unsigned by, unsigned of) const { return lanes_[by / kLanes].seen[by % kLanes][of % kLanes]; }

 private:
  static constexpr int kLanes = 32;
  static constexpr int kWarps = 32;
  struct Lanes {
    uint32_t seen[kLanes][kLanes];  // [by whom][of whom]
  };

  uint32_t block_ = 0;
  uint32_t generation_ = 0;  // of the block's shared memory
  uint32_t epoch_ = 1;       // barriers passed
  std::unique_ptr<Lanes[]> lanes_;
};

struct AddressRange {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool contains(uintptr_t address) const { return address - begin < bytes; }
};

class RaceDetector {
 public:
  static RaceDetector& instance() {
    static RaceDetector* detector = new RaceDetector;
    return *detector;
  }

  void start_launch(uint64_t num_blocks, bool enabled);
  bool enabled() const { return enabled_; }

  void access(uintptr_t address, size_t bytes, AccessKind kind, uintptr_t code);
  void fence(const BlockClock& clock, uint32_t thread);
  void atomic(uintptr_t address, uint32_t block);

  uint32_t new_generation() { return ++generations_; }

 private:
  // Who touched a byte or a word.
  struct Access {
    uint32_t block = 0;
    uint32_t thread = kNobody;
    uint32_t epoch = 0;
    uint32_t lane_clock = 0;
    uint32_t block_clock = 0;  // fences that its block had passed
    uint32_t code = 0;  // offset of the instruction in its module
    bool atomic = false;
  };
  struct Cell {
    uint32_t generation = 0;
    Access write, atomic, reads[2];
  };
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kWordBytes = 4;
  struct Page {
    Cell words[kPageBytes / kWordBytes];
    std::unique_ptr<Cell[]> bytes;  // once something smaller than a word was touched
  };

  struct Fence {
    uint32_t warp;
    uint32_t epoch;
  };

  using Knowledge = std::vector<uint32_t>;  // [of block]: how many of its fences one knows of
  static void learn(Knowledge& to, const Knowledge& from);
  Page& page(uintptr_t address);
  void check(const Cell& cell, const Access& now, AccessKind kind, uintptr_t address, bool shared) const;
  void mark(Cell& cell, const Access& now, AccessKind kind) const;
  bool ordered(const Access& before, const Access& now) const;
  void report(const Access& before, const char* did, const Access& now, AccessKind kind, uintptr_t address, bool shared) const;

  static constexpr uint32_t kNobody = ~0u;
  static constexpr uint64_t kMaxBlocks = 256;  // beyond these, blocks are not compared with each other

  bool enabled_ = false;
  uint32_t generations_ = 0;
  uint32_t launch_generation_ = 0;
  uint64_t num_blocks_ = 0;
  bool any_fence_ = false;
  std::vector<std::vector<Fence>> fences_;   // [block]: those it has passed
  std::vector<Knowledge> seen_;              // [block]
  std::vector<Knowledge> heard_;             // [block] by its atomics, to be seen after its next fence
  std::unordered_map<uintptr_t, Knowledge> published_;  // by address of an atomic
  std::unordered_map<uintptr_t, std::unique_ptr<Page>> pages_;
  uintptr_t last_page_number_ = ~uintptr_t{0};
  Page* last_page_ = nullptr;
};

}  // namespace reprocuda::emulation
