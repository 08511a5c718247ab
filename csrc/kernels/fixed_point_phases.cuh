// Phases of work inside one kernel: the blocks of a grid take numbered items, and an item may ask to wait until all items
// before a certain number are finished.
//
// Guarantee: no deadlock, however few blocks are resident and in whatever order they start. Why: numbers are handed out in
// order, so every item before the one that waits belongs to a block that is running; the unfinished item with the lowest
// number waits for no other. What an item wrote is visible to every item that waited for it.
// Cost: two atomics and two barriers an item, one polled word while waiting.
#pragma once

#include "device.cuh"

namespace reprocuda {

// In device memory, zero before the kernel starts.
struct PhaseCounters {
  unsigned long long taken;
  unsigned long long finished;
};

class Phases {
 public:
  explicit __device__ Phases(PhaseCounters* counters) : counters_(counters) {}

  // The next item, the same for the whole block. Every thread calls it, and finish() before it calls it again: that barrier
  // keeps an item until all have read it.
  __device__ int64_t take() {
    __shared__ int64_t item;
    if (threadIdx.x == 0) item = static_cast<int64_t>(atomicAdd(&counters_->taken, 1ull));
    __syncthreads();
    return item;
  }

  // Returns when all items below `end` are finished; the item that asks must not be one of them.
  __device__ void wait_for(int64_t end) {
    if (threadIdx.x == 0) {
      while (static_cast<int64_t>(atomicAdd(&counters_->finished, 0ull)) < end) __nanosleep(100);
      __threadfence();
    }
    __syncthreads();
  }

  // After the barrier, the fence of one thread stands for what the whole block wrote.
  __device__ void finish() {
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(&counters_->finished, 1ull);
    }
  }

 private:
  PhaseCounters* counters_;
};

}  // namespace reprocuda
