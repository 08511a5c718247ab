// The part of CUDA that the kernels use, for an ordinary C++ compiler: keywords, built-in variables, barriers, warp
// collectives and atomics, run by the scheduler in block.h. Link csrc/emulation/*.cpp.
//
// Not offered, on purpose: __activemask (its answer is a matter of chance), `extern __shared__` (dynamic_shared<T>() in
// kernels/device.cuh), warps in implicit lockstep (say __syncwarp). There is no memory model: every write is seen at once.
#pragma once

#include <cassert>
#include <cstdio>
#include <limits>
#include <type_traits>

#include "api.h"
#include "intrinsics.h"
#include "vector_types.h"

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx (::reprocuda::emulation::current_thread->index)
#define blockIdx (::reprocuda::emulation::current_block->index)
#define blockDim (::reprocuda::emulation::current_block->block_dim)
#define gridDim (::reprocuda::emulation::current_block->grid)
inline constexpr int warpSize = 32;

namespace reprocuda::emulation {

template <class T>
concept Exchangeable = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long> ||
                       std::is_same_v<T, unsigned long> || std::is_same_v<T, long long> ||
                       std::is_same_v<T, unsigned long long> || std::is_same_v<T, float> || std::is_same_v<T, double>;

template <class T>
uint64_t to_word(T value) {
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}

template <class T>
T from_word(uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

template <class T>
T shuffle(unsigned mask, T value, int source_lane, Location where) {
  return from_word<T>(collective(Collective::kShuffle, mask, to_word(value), source_lane, where));
}

inline int this_lane() { return static_cast<int>(current_thread->linear % kWarpSize); }

// The lane, or one's own where it lies outside the segment of `width` lanes.
inline int lane_within(int wanted, int width) {
  const int own = this_lane();
  const int first = own & ~(width - 1);
  return wanted >= first && wanted < first + width ? wanted : own;
}

[[noreturn]] inline void assertion_failed(const char* what, Location where = Location::current()) {
  fail(std::string("assertion failed: ") + what, where);
}

template <class T, class Update>
T atomic(T* address, Update update, Location where) {
  begin_atomic(address, sizeof(T), where);
  const T before = *address;
  *address = update(before);
  end_atomic();
  return before;
}

template <class T>
concept AtomicInteger = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, long long> ||
                        std::is_same_v<T, unsigned long long>;

template <class T>
concept AtomicAddable = std::is_same_v<T, int> || std::is_same_v<T, unsigned> || std::is_same_v<T, unsigned long long> ||
                        std::is_same_v<T, float> || std::is_same_v<T, double>;

// Keeps the second parameter of an atomic out of template deduction: it converts, as in CUDA's overloads.
template <class T>
using Same = std::type_identity_t<T>;

template <class T>
T reduce(Collective kind, unsigned mask, T value, Location where) {
  return static_cast<T>(collective(kind, mask, to_word(value), 0, where));
}
template <class T>
concept Reducible = std::is_same_v<T, int> || std::is_same_v<T, unsigned>;

namespace device {

inline void __syncthreads(Location where = Location::current()) { barrier(false, where); }
inline int __syncthreads_or(int condition, Location where = Location::current()) {
  return barrier(condition != 0, where).any;
}
inline int __syncthreads_and(int condition, Location where = Location::current()) {
  return barrier(condition != 0, where).all;
}
inline int __syncthreads_count(int condition, Location where = Location::current()) {
  return static_cast<int>(barrier(condition != 0, where).count);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, Location where = Location::current()) {
  collective(Collective::kSync, mask, 0, 0, where);
}
unsigned __activemask() = delete;

template <Exchangeable T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32, Location where = Location::current()) {
  const int first = this_lane() & ~(width - 1);
  return shuffle(mask, value, first + (lane & (width - 1)), where);
}
template <Exchangeable T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, Location where = Location::current()) {
  const int wanted = this_lane() - static_cast<int>(delta);
  return shuffle(mask, value, lane_within(wanted, width), where);
}
template <Exchangeable T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, Location where = Location::current()) {
  const int wanted = this_lane() + static_cast<int>(delta);
  return shuffle(mask, value, lane_within(wanted, width), where);
}
template <Exchangeable T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, Location where = Location::current()) {
  // Unlike the others, xor may read an earlier segment; a later one gives back the own value.
  const int own = this_lane();
  const int wanted = own ^ lane_mask;
  const int end = (own & ~(width - 1)) + width;
  return shuffle(mask, value, wanted < end ? wanted : own, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, Location where = Location::current()) {
  return static_cast<unsigned>(collective(Collective::kBallot, mask, predicate != 0, 0, where));
}
inline int __any_sync(unsigned mask, int predicate, Location where = Location::current()) {
  return __ballot_sync(mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, Location where = Location::current()) {
  return __ballot_sync(mask, predicate, where) == mask;
}
template <Exchangeable T>
unsigned __match_any_sync(unsigned mask, T value, Location where = Location::current()) {
  return static_cast<unsigned>(collective(Collective::kMatchAny, mask, to_word(value), 0, where));
}

template <Reducible T>
T __reduce_add_sync(unsigned mask, T value, Location where = Location::current()) {
  return reduce(Collective::kAdd, mask, value, where);
}
template <Reducible T>
T __reduce_min_sync(unsigned mask, T value, Location where = Location::current()) {
  return reduce(std::is_signed_v<T> ? Collective::kMinSigned : Collective::kMin, mask, value, where);
}
template <Reducible T>
T __reduce_max_sync(unsigned mask, T value, Location where = Location::current()) {
  return reduce(std::is_signed_v<T> ? Collective::kMaxSigned : Collective::kMax, mask, value, where);
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, Location where = Location::current()) {
  return reduce(Collective::kAnd, mask, value, where);
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, Location where = Location::current()) {
  return reduce(Collective::kOr, mask, value, where);
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, Location where = Location::current()) {
  return reduce(Collective::kXor, mask, value, where);
}

template <AtomicAddable T>
T atomicAdd(T* address, Same<T> value, Location where = Location::current()) {
  const auto add = [=](T old) {
    if constexpr (std::is_same_v<T, int>) {
      return static_cast<int>(static_cast<unsigned>(old) + static_cast<unsigned>(value));
    } else {
      return static_cast<T>(old + value);
    }
  };
  return atomic(address, add, where);
}
template <AtomicInteger T>
T atomicMax(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return old < value ? value : old; }, where);
}
template <AtomicInteger T>
T atomicMin(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return value < old ? value : old; }, where);
}
template <AtomicInteger T>
T atomicOr(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return old | value; }, where);
}
template <AtomicInteger T>
T atomicAnd(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return old & value; }, where);
}
template <AtomicInteger T>
T atomicXor(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return old ^ value; }, where);
}
template <AtomicInteger T>
T atomicExch(T* address, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T) { return value; }, where);
}
template <AtomicInteger T>
T atomicCAS(T* address, Same<T> expected, Same<T> value, Location where = Location::current()) {
  return atomic(address, [=](T old) { return old == expected ? value : old; }, where);
}

inline void __threadfence(Location where = Location::current()) { fence(where); }
inline void __threadfence_block(Location where = Location::current()) { yield(where); }
inline void __nanosleep(unsigned, Location where = Location::current()) { yield(where); }
[[noreturn]] inline void __trap(Location where = Location::current()) { fail("the kernel trapped", where); }

}  // namespace device
}  // namespace reprocuda::emulation

using namespace reprocuda::emulation::device;

#undef assert
#define assert(condition) \
  (static_cast<bool>(condition) ? void() : ::reprocuda::emulation::assertion_failed(#condition))
