// One resident block: its threads as fibers, its barrier, its warps' collectives.
//
// A thread runs until it reaches a synchronisation point; there the schedule picks who continues. What a GPU would turn
// into a hang or into silence is an error here: a barrier or a warp collective that some named thread never reaches, threads
// that meet at different calls, lanes read that take no part.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "api.h"
#include "fiber.h"
#include "races.h"
#include "schedule.h"

namespace reprocuda::emulation {

inline constexpr unsigned kMaxThreads = 1024;
inline constexpr size_t kStackBytes = 64 * 1024;

enum class ThreadStatus : uint8_t { kReady, kAtBarrier, kAtCollective, kDone };

struct ThreadState : ThreadView {
  FiberContext fiber;
  ThreadStatus status = ThreadStatus::kReady;
  Collective collective = Collective::kSync;
  unsigned mask = 0;
  int source_lane = 0;
  uint64_t value = 0;
  uint64_t result = 0;
  Location where;
};

// What a launch asks of a block.
struct Job {
  void (*invoke)(const void* arguments) = nullptr;
  const void* arguments = nullptr;
  Index3 grid;
  Index3 block_dim;
  unsigned num_threads = 0;
  Schedule schedule = Schedule::kForward;
  uintptr_t module_base = 0;
};

struct SharedMemory {
  std::byte* dynamic_begin = nullptr;
  AddressRange dynamic;  // with the guard zone behind it
  size_t dynamic_bytes = 0;
  AddressRange variables;  // `__shared__`
};

// What the block needs of the machine around it.
class BlockHost {
 public:
  virtual ~BlockHost() = default;
  virtual bool after_step() = 0;  // may let another block run; false: the launch has failed, abandon the block
  virtual void fail(std::string message) = 0;
};

class Block : public BlockView {
 public:
  Block(BlockHost& host, std::byte* stacks) : host_(host), stacks_(stacks), threads_(kMaxThreads) {}

  // Runs all threads of block `index` to their end, or returns early when the launch has failed.
  void run(const Job& job, Index3 index, Random random, const SharedMemory& shared) {
    job_ = &job;
    BlockView::operator=({index, job.block_dim, job.grid, shared.dynamic_begin});
    shared_ = shared;
    random_ = random;
    races_ = RaceDetector::instance().enabled();
    const unsigned position = index.x + job.grid.x * (index.y + job.grid.y * index.z);
    if (races_) clock_.start(position, RaceDetector::instance().new_generation());
    running_ = job.num_threads;
    at_barrier_ = 0;
    std::fill(std::begin(pending_), std::end(pending_), 0u);
    for (unsigned t = 0; t < job.num_threads; ++t) start_thread(t);
    picker_.start(job.schedule, job.num_threads, random_);
    current_block = this;
    ThreadState& first = threads_[picker_.pick(random_)];
    current_thread = &first;
    switch_fiber(outside_, first.fiber);
    check_stacks();
  }

  const Job& job() const { return *job_; }
  const BlockClock& clock() const { return clock_; }
  bool is_stack(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(stacks_) < kMaxThreads * kStackBytes;
  }
  bool is_shared(uintptr_t address) const {
    return shared_.dynamic.contains(address) || shared_.variables.contains(address);
  }
  void check_shared_bounds(uintptr_t address, size_t bytes) {
    if (shared_.dynamic.contains(address) && address + bytes > shared_.dynamic.begin + shared_.dynamic_bytes) {
      fail("an access past the dynamic shared memory, at byte " + std::to_string(address - shared_.dynamic.begin));
    }
  }

  static Block& current() { return *static_cast<Block*>(current_block); }

  void yield(Location where) {
    self().where = where;
    switch_away();
  }

  Votes barrier(bool contribution, Location where) {
    ThreadState& self = this->self();
    if (at_barrier_ == 0) {
      votes_ = {};
      barrier_location_ = where;
    } else if (!same_place(where, barrier_location_)) {
      fail("threads of one block meet at different barriers: one at " + describe(barrier_location_));
    }
    votes_.count += contribution;
    votes_.all &= contribution;
    votes_.any |= contribution;
    self.where = where;
    if (++at_barrier_ == job_->num_threads) {
      at_barrier_ = 0;
      finished_votes_ = votes_;
      if (races_) clock_.barrier();
      for (unsigned t = 0; t < job_->num_threads; ++t) wake(threads_[t]);
    } else {
      self.status = ThreadStatus::kAtBarrier;
      picker_.make_waiting(self.linear);
    }
    switch_away();
    return finished_votes_;
  }

  uint64_t collective(Collective kind, unsigned mask, uint64_t value, int source_lane, Location where) {
    ThreadState& self = this->self();
    const unsigned lane = self.linear % kWarpSize;
    const unsigned warp = self.linear / kWarpSize;
    self.where = where;
    if (((mask >> lane) & 1) == 0) fail("a lane calls a warp collective with a mask that does not name it");
    self.collective = kind;
    self.mask = mask;
    self.value = value;
    self.source_lane = source_lane;
    pending_[warp] |= 1u << lane;
    if (complete(warp, mask)) {
      resolve(warp, mask);
      if (races_) clock_.join(warp, mask);
      pending_[warp] &= ~mask;
    } else {
      self.status = ThreadStatus::kAtCollective;
      picker_.make_waiting(self.linear);
    }
    switch_away();
    return self.result;
  }

  [[noreturn]] void fail(const std::string& message, Location where) {
    self().where = where;
    fail(message);
  }

  [[noreturn]] void fail(const std::string& message) {
    host_.fail(message + "\n  in thread " + describe(current_thread->index) + " of block " + describe(index) + ", near " +
               describe(self().where));
    abandon();
  }

 private:
  static bool same_place(const Location& a, const Location& b) {
    return a.line() == b.line() && (a.file_name() == b.file_name() || std::strcmp(a.file_name(), b.file_name()) == 0);
  }
  static std::string describe(const Location& where) {
    return std::string(where.file_name()) + ":" + std::to_string(where.line());
  }
  static std::string describe(Index3 i) {
    return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
  }

  void start_thread(unsigned t) {
    ThreadState& thread = threads_[t];
    const Index3 dim = job_->block_dim;
    thread.index = {t % dim.x, t / dim.x % dim.y, t / (dim.x * dim.y)};
    thread.linear = t;
    thread.status = ThreadStatus::kReady;
    thread.where = Location();
    std::byte* stack = stacks_ + t * kStackBytes;
    std::memcpy(stack, &kCanary, sizeof kCanary);
    prepare_fiber(thread.fiber, stack, kStackBytes, &Block::fiber_main);
  }

  static ThreadState& self() { return *static_cast<ThreadState*>(current_thread); }

  static void fiber_main() {
    Block& block = current();
    tracking_accesses = block.races_;
    block.job_->invoke(block.job_->arguments);
    tracking_accesses = false;
    block.finish_thread();
  }

  [[noreturn]] void finish_thread() {
    ThreadState& self = this->self();
    self.status = ThreadStatus::kDone;
    picker_.make_waiting(self.linear);
    if (--running_ == 0) abandon();
    switch_away();
    __builtin_unreachable();
  }

  // Leaves the fibers where they are. Kernels own nothing that needs a destructor.
  [[noreturn]] void abandon() {
    FiberContext dead;
    switch_fiber(dead, outside_);
    __builtin_unreachable();
  }

  void switch_away() {
    ThreadState* self = &this->self();
    const bool keep_going = host_.after_step();
    current_block = this;  // another block may have run
    current_thread = self;
    if (!keep_going) abandon();
    if (picker_.nobody_ready()) report_deadlock();
    ThreadState* next = &threads_[picker_.pick(random_)];
    if (next == self) return;
    current_thread = next;
    switch_fiber(self->fiber, next->fiber);
  }

  void wake(ThreadState& thread) {
    thread.status = ThreadStatus::kReady;
    picker_.make_ready(thread.linear);
  }

  bool complete(unsigned warp, unsigned mask) {
    if ((pending_[warp] & mask) != mask) return false;
    const ThreadState* lanes = &threads_[warp * kWarpSize];
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      if (lanes[std::countr_zero(rest)].mask != mask) return false;
    }
    return true;
  }

  void resolve(unsigned warp, unsigned mask) {
    ThreadState* lanes = &threads_[warp * kWarpSize];
    const Collective kind = self().collective;
    uint64_t combined = self().value;
    unsigned ballot = 0;
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      const unsigned lane = std::countr_zero(rest);
      const ThreadState& thread = lanes[lane];
      if (thread.collective != kind || !same_place(thread.where, self().where)) {
        fail("lanes of one warp meet in different collectives: one at " + describe(thread.where));
      }
      if (thread.value != 0) ballot |= 1u << lane;
      if (&thread != &self()) combined = combine(kind, combined, thread.value);
    }
    for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
      ThreadState& thread = lanes[std::countr_zero(rest)];
      thread.result = result_for(thread, kind, lanes, mask, ballot, combined);
      wake(thread);
    }
  }

  uint64_t result_for(ThreadState& thread, Collective kind, const ThreadState* lanes, unsigned mask, unsigned ballot,
                      uint64_t combined) {
    if (kind == Collective::kSync) return 0;
    if (kind == Collective::kBallot) return ballot;
    if (kind == Collective::kShuffle) {
      if (((mask >> thread.source_lane) & 1) == 0) {
        fail("a shuffle reads lane " + std::to_string(thread.source_lane) + ", which takes no part in it");
      }
      return lanes[thread.source_lane].value;
    }
    if (kind == Collective::kMatchAny) {
      unsigned equal = 0;
      for (unsigned rest = mask; rest != 0; rest &= rest - 1) {
        const unsigned lane = std::countr_zero(rest);
        if (lanes[lane].value == thread.value) equal |= 1u << lane;
      }
      return equal;
    }
    return combined;
  }

  static uint64_t combine(Collective kind, uint64_t a, uint64_t b) {
    const auto smaller_signed = [](uint64_t x, uint64_t y) { return static_cast<int32_t>(x) < static_cast<int32_t>(y); };
    switch (kind) {
      case Collective::kAdd: return a + b;
      case Collective::kMin: return std::min(a, b);
      case Collective::kMax: return std::max(a, b);
      case Collective::kAnd: return a & b;
      case Collective::kOr: return a | b;
      case Collective::kXor: return a ^ b;
      case Collective::kMinSigned: return smaller_signed(b, a) ? b : a;
      case Collective::kMaxSigned: return smaller_signed(a, b) ? b : a;
      default: return 0;
    }
  }

  [[noreturn]] void report_deadlock() {
    std::string message = "deadlock: no thread of the block can run";
    int listed = 0;
    unsigned returned = 0;
    const ThreadState* previous = nullptr;
    for (unsigned t = 0; t < job_->num_threads; ++t) {
      const ThreadState& thread = threads_[t];
      if (thread.status == ThreadStatus::kDone) {
        ++returned;
        continue;
      }
      const bool news = previous == nullptr || previous->status != thread.status || !same_place(previous->where, thread.where);
      previous = &thread;
      if (!news || ++listed > 6) continue;
      message += "\n  thread " + describe(thread.index) + " waits at a ";
      message += thread.status == ThreadStatus::kAtBarrier ? "barrier, " : "warp collective, ";
      message += describe(thread.where);
      if (thread.status == ThreadStatus::kAtCollective) message += ", mask " + std::to_string(thread.mask);
    }
    fail(message + "\n  " + std::to_string(returned) + " threads have returned");
  }

  void check_stacks() {
    for (unsigned t = 0; t < job_->num_threads; ++t) {
      if (std::memcmp(stacks_ + t * kStackBytes, &kCanary, sizeof kCanary) != 0) {
        host_.fail("a thread overran its stack of " + std::to_string(kStackBytes) + " bytes");
        return;
      }
    }
  }

  static constexpr uint64_t kCanary = 0x5afe57ac4c0ffee5;

  BlockHost& host_;
  std::byte* stacks_;  // kMaxThreads stacks
  std::vector<ThreadState> threads_;
  const Job* job_ = nullptr;
  Random random_;
  SharedMemory shared_;
  bool races_ = false;
  BlockClock clock_;
  FiberContext outside_;
  ThreadPicker picker_;
  unsigned running_ = 0;
  unsigned at_barrier_ = 0;
  Votes votes_, finished_votes_;
  Location barrier_location_;
  unsigned pending_[kMaxThreads / kWarpSize] = {};  // lanes that wait in a collective, a bit each
};

}  // namespace reprocuda::emulation
