// One stack and one suspended computation: what an emulated CUDA thread runs on.
//
// A switch saves the callee-saved registers, swaps stack pointers and returns into the other fiber: about 2 ns, where
// swapcontext spends a system call on the signal mask. Other processors than x86-64 use ucontext.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace reprocuda::emulation {

#if defined(__x86_64__)

struct FiberContext {
  void* stack_pointer = nullptr;
};

__attribute__((naked, noinline)) inline void switch_stacks(void** /*save*/, void* /*load*/) {
  asm(R"(
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
  )");
}

inline void switch_fiber(FiberContext& from, FiberContext& to) { switch_stacks(&from.stack_pointer, to.stack_pointer); }

// `entry` never returns: it switches away for the last time.
inline void prepare_fiber(FiberContext& fiber, std::byte* stack, size_t bytes, void (*entry)()) {
  constexpr int kSavedRegisters = 6;
  auto top = reinterpret_cast<uintptr_t>(stack + bytes) & ~uintptr_t{15};
  auto* words = reinterpret_cast<void**>(top);
  *--words = nullptr;  // a return address for `entry`, which also leaves the stack as a call would
  *--words = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--words = nullptr;
  fiber.stack_pointer = words;
}

#else

struct FiberContext {
  ucontext_t context;
};

inline void switch_fiber(FiberContext& from, FiberContext& to) { swapcontext(&from.context, &to.context); }

inline void prepare_fiber(FiberContext& fiber, std::byte* stack, size_t bytes, void (*entry)()) {
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = stack;
  fiber.context.uc_stack.ss_size = bytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}

#endif

}  // namespace reprocuda::emulation
