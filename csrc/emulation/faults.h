// An access to memory that is not there becomes a KernelError, while a kernel runs, and so does a loop without end: the
// signal's context is bent so that the thread continues in the emulator. Elsewhere than on x86-64 the process dies as usual.
#pragma once

#include <csignal>
#include <cstdio>
#include <iterator>
#include <ucontext.h>

#include "block.h"

namespace reprocuda::emulation {

class FaultGuard {
 public:
  FaultGuard() {
    struct sigaction action {};
    action.sa_sigaction = &FaultGuard::handle;
    action.sa_flags = SA_SIGINFO;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &previous_[i]);
  }
  ~FaultGuard() {
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &previous_[i], nullptr);
  }
  FaultGuard(const FaultGuard&) = delete;

  // Sent to a worker that has run for long without a synchronisation point.
  static constexpr int kOverdueSignal = SIGXCPU;

 private:
  static constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, kOverdueSignal};
  inline static int fault_signal = 0;
  inline static void* fault_address = nullptr;

  static void handle(int signal, siginfo_t* info, [[maybe_unused]] void* context) {
#if defined(__x86_64__)
    char marker;
    // Never out of the middle of the race detector, which may hold the allocator: it ends the kernel itself.
    overdue = signal == kOverdueSignal;
    if (overdue && RaceDetector::instance().enabled() && !tracking_accesses) return;
    if (current_block != nullptr && Block::current().is_stack(reinterpret_cast<uintptr_t>(&marker))) {
      fault_signal = signal;
      fault_address = info->si_addr;
      auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
      constexpr long long kRedZone = 128;
      registers[REG_RSP] = ((registers[REG_RSP] - kRedZone) & ~15ll) - 8;
      registers[REG_RIP] = reinterpret_cast<long long>(&FaultGuard::continue_after_fault);
      return;
    }
#endif
    std::signal(signal, SIG_DFL);  // not a kernel's doing: fault again and die
  }

  static void continue_after_fault() {
    tracking_accesses = false;
    char text[96];
    std::snprintf(text, sizeof text, "an invalid access to memory at %p", fault_address);
    Block::current().fail(fault_signal == SIGFPE   ? "an integer division by zero"
                          : fault_signal == SIGILL ? "the compiler found undefined behaviour here"
                          : fault_signal == kOverdueSignal ? kOverdueMessage
                                                   : text);
  }

  struct sigaction previous_[std::size(kSignals)];
};

}  // namespace reprocuda::emulation
