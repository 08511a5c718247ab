#include <cstdio>
#include <cstdlib>

#include "machine.h"

namespace reprocuda::emulation {

ThreadView* current_thread = nullptr;
BlockView* current_block = nullptr;

namespace {

// Around everything the emulator does on behalf of a kernel: its own accesses are not the kernel's.
class Untracked {
 public:
  Untracked() { tracking_accesses = false; }
  ~Untracked() { tracking_accesses = RaceDetector::instance().enabled(); }
  Untracked(const Untracked&) = delete;
};

}  // namespace

void yield(Location where) {
  const Untracked scope;
  Block::current().yield(where);
}

void fence(Location where) {
  const Untracked scope;
  RaceDetector::instance().fence(Block::current().clock(), current_thread->linear);
  Block::current().yield(where);
}

Votes barrier(bool contribution, Location where) {
  const Untracked scope;
  return Block::current().barrier(contribution, where);
}

uint64_t collective(Collective kind, unsigned mask, uint64_t value, int source_lane, Location where) {
  const Untracked scope;
  return Block::current().collective(kind, mask, value, source_lane, where);
}

void begin_atomic(const void* address, size_t bytes, Location where) {
  tracking_accesses = false;
  Block::current().yield(where);
  RaceDetector& races = RaceDetector::instance();
  if (!races.enabled()) return;
  const auto begin = reinterpret_cast<uintptr_t>(address);
  races.access(begin, bytes, AccessKind::kAtomic, reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
  if (!Block::current().is_shared(begin)) races.atomic(begin, Block::current().clock().block());
}

void end_atomic() { tracking_accesses = RaceDetector::instance().enabled(); }

void fail(const std::string& message, Location where) {
  tracking_accesses = false;
  if (current_block == nullptr) {
    std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), where.line(), message.c_str());
    std::abort();
  }
  Block::current().fail(message, where);
}

void print(const std::string& text) {
  if (current_block == nullptr) {
    std::fputs(text.c_str(), stdout);
    return;
  }
  const Untracked scope;
  Machine::instance().print(text);
}

std::string take_output() { return Machine::instance().take_output(); }

void launch_kernel(const void* kernel, Index3 grid, Index3 block, size_t dynamic_shared_bytes,
                   void (*invoke)(const void*), const void* arguments) {
  Machine::instance().launch(kernel, grid, block, dynamic_shared_bytes, invoke, arguments);
}

void count_launch(const char* name) { Machine::instance().count(name); }

void set_options(const Options& options) { Machine::instance().set_options(options); }

std::map<std::string, int64_t> launch_counts() { return Machine::instance().launch_counts(); }

void reset_launch_counts() { Machine::instance().reset_launch_counts(); }

uint64_t steps() { return Machine::instance().steps(); }

void poison(void* memory, size_t bytes) { PoisonPattern(Machine::instance().choices()).fill(memory, bytes); }

bool flip_coin() { return Machine::instance().choices().one_in(2); }

}  // namespace reprocuda::emulation
