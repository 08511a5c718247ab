// What a compiled kernel and its launcher call; runtime.cpp defines it.
//
// The line is drawn here so that kernels can be compiled with -fsanitize=thread (whose hooks races.cpp supplies) and the
// emulator itself without.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <source_location>
#include <stdexcept>
#include <string>
#include <tuple>

namespace reprocuda::emulation {

using Location = std::source_location;

inline constexpr unsigned kWarpSize = 32;

struct Index3 {
  unsigned x = 0, y = 0, z = 0;
};

struct ThreadView {
  Index3 index;
  unsigned linear = 0;  // within the block
};

struct BlockView {
  Index3 index;
  Index3 block_dim;
  Index3 grid;
  void* dynamic_memory = nullptr;
};

// Set by whoever runs: one fiber at a time in the whole process. nullptr outside kernels.
extern ThreadView* current_thread;
extern BlockView* current_block;

// --- called by kernels -------------------------------------------------------------------------------------------------

// A point where another thread, or another block, may run.
void yield(Location where);

// Makes the writes before it visible to those who see a later atomic of this block.
void fence(Location where);

struct Votes {
  unsigned count = 0;
  bool all = true, any = false;
};
Votes barrier(bool contribution, Location where);

enum class Collective : uint8_t {
  kSync,
  kShuffle,
  kBallot,
  kMatchAny,
  kAdd,
  kMin,
  kMax,
  kAnd,
  kOr,
  kXor,
  kMinSigned,
  kMaxSigned,
};

// `source_lane`: shuffles only, whose value this lane asks for.
uint64_t collective(Collective kind, unsigned mask, uint64_t value, int source_lane, Location where);

// Around the read-modify-write of an atomic; others may run before it.
void begin_atomic(const void* address, size_t bytes, Location where);
void end_atomic();

[[noreturn]] void fail(const std::string& message, Location where);

void print(const std::string& text);

// --- called by launchers ------------------------------------------------------------------------------------------------

// A kernel did what it must not do; or it could not be launched at all.
struct __attribute__((visibility("default"))) KernelError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void launch_kernel(const void* kernel, Index3 grid, Index3 block, size_t dynamic_shared_bytes,
                   void (*invoke)(const void*), const void* arguments);
void count_launch(const char* name);  // of what is not a kernel: memset, copy

template <class... Parameters>
struct Invocation {
  void (*kernel)(Parameters...);
  std::tuple<Parameters...> arguments;

  static void run(const void* self) {
    const auto& call = *static_cast<const Invocation*>(self);
    std::apply(call.kernel, call.arguments);
  }
};

// --- called by tests ----------------------------------------------------------------------------------------------------

struct Options {
  uint64_t seed = 0;
  int schedule = -1;        // a Schedule (schedule.h), or -1: the seed chooses
  int resident_blocks = 0;  // blocks interleaved with each other; 0: the seed chooses 1 to 4
  bool detect_races = true;  // where kernels are compiled for it, see races.h
  uint64_t max_steps = uint64_t{1} << 33;  // a launch that takes more makes no progress
};
void set_options(const Options& options);

std::map<std::string, int64_t> launch_counts();
void reset_launch_counts();
uint64_t steps();  // synchronisation points passed since the process began

std::string take_output();  // what kernels have printed since the last call; a KernelError repeats it

// Choices of the harness that follow the seed too: a pattern for memory nobody has written, and a bit.
void poison(void* memory, size_t bytes);
bool flip_coin();

}  // namespace reprocuda::emulation
