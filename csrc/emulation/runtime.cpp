#include <cstdio>
#include <cstdlib>

#include "machine.h"

namespace reprocuda::emulation {

ThreadView* current_thread = nullptr;
BlockView* current_block = nullptr;

void yield(Location where) { Block::current().yield(where); }

void fence(Location where) { Block::current().yield(where); }

Votes barrier(bool contribution, Location where) { return Block::current().barrier(contribution, where); }

uint64_t collective(Collective kind, unsigned mask, uint64_t value, int source_lane, Location where) {
  return Block::current().collective(kind, mask, value, source_lane, where);
}

void begin_atomic(const void*, size_t, Location where) { Block::current().yield(where); }

void end_atomic() {}

void fail(const std::string& message, Location where) {
  if (current_block == nullptr) {
    std::fprintf(stderr, "%s:%u: %s\n", where.file_name(), where.line(), message.c_str());
    std::abort();
  }
  Block::current().fail(message, where);
}

void launch_kernel(const void* kernel, Index3 grid, Index3 block, size_t dynamic_shared_bytes,
                   void (*invoke)(const void*), const void* arguments) {
  Machine::instance().launch(kernel, grid, block, dynamic_shared_bytes, invoke, arguments);
}

void count_launch(const char* name) { Machine::instance().count(name); }

void set_options(const Options& options) { Machine::instance().set_options(options); }

std::map<std::string, int64_t> launch_counts() { return Machine::instance().launch_counts(); }

void reset_launch_counts() { Machine::instance().reset_launch_counts(); }

uint64_t steps() { return Machine::instance().steps(); }

void poison(void* memory, size_t bytes) { Machine::instance().poison(memory, bytes); }

}  // namespace reprocuda::emulation
