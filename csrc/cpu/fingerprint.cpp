// The fingerprint of a tensor's bits, on the CPU.
//
// What: numerics/fingerprint.h. Whole blocks of a contiguous tensor are hashed where they lie; all others, and bools, are
// first packed, a block at a time, on the stack.
// Guarantee: the sums over blocks are modulo 2^64, so threads add theirs in any order.
// Cost: one pass at about the speed of memory. Below kParallelBlocks blocks no thread is woken.
#include "fingerprint.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "parallel.h"
#include "select_kernels.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kParallelBlocks = 64;  // a thread's least share: 128 KiB, some ten times what waking it costs

template <int kBytes>
void copy_elements(unsigned char* to, const unsigned char* from, int64_t stride, int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * kBytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * stride * kBytes, kBytes);
}

using CopyElements = void (*)(unsigned char*, const unsigned char*, int64_t, int64_t);

CopyElements copy_elements_of(int bytes) {
  switch (bytes) {
    case 1: return copy_elements<1>;
    case 2: return copy_elements<2>;
    case 4: return copy_elements<4>;
    case 8: return copy_elements<8>;
    default: return copy_elements<16>;
  }
}

// Elements [first, first + count) in row-major order, packed.
void pack_elements(const FingerprintProblem& problem, int64_t first, int64_t count, unsigned char* to) {
  const auto copy = copy_elements_of(problem.element_bytes);
  const auto* data = static_cast<const unsigned char*>(problem.data);
  const int last = problem.ndim - 1;
  if (last < 0) {
    copy(to, data, 1, count);
    return;
  }
  int64_t coordinates[kMaxDims];
  int64_t offset = 0;
  for (int d = last; d >= 0; --d) {
    coordinates[d] = first % problem.sizes[d];
    first /= problem.sizes[d];
    offset += coordinates[d] * problem.strides[d];
  }
  for (;;) {
    const int64_t run = std::min(count, problem.sizes[last] - coordinates[last]);
    copy(to, data + offset * problem.element_bytes, problem.strides[last], run);
    count -= run;
    if (count == 0) return;
    to += run * problem.element_bytes;
    // The run ended with its line; on to the next one.
    offset -= coordinates[last] * problem.strides[last];
    coordinates[last] = 0;
    for (int d = last - 1; d >= 0; --d) {
      offset += problem.strides[d];
      if (++coordinates[d] < problem.sizes[d]) break;
      offset -= problem.sizes[d] * problem.strides[d];
      coordinates[d] = 0;
    }
  }
}

Fingerprint hash_packed(const FingerprintProblem& problem, HashBlocks hash_blocks, int64_t begin, int64_t end) {
  alignas(64) unsigned char packed[kFingerprintBlockBytes];
  const int64_t elements = kFingerprintBlockBytes / problem.element_bytes;
  Fingerprint sums = {};
  for (int64_t block = begin; block < end; ++block) {
    const int64_t first = block * elements;
    const int64_t count = std::min(elements, problem.num_elements - first);
    pack_elements(problem, first, count, packed);
    const int64_t bytes = count * problem.element_bytes;
    std::memset(packed + bytes, 0, static_cast<size_t>(kFingerprintBlockBytes - bytes));
    if (problem.is_bool) {
      for (unsigned char& byte : packed) byte = byte != 0;
    }
    sums.add(hash_blocks(packed, 1, block));
  }
  return sums;
}

}  // namespace

Fingerprint fingerprint(const FingerprintProblem& problem) {
  static const HashBlocks hash_blocks = select_kernels([](auto kernels) { return kernels.fingerprint(); });
  const bool direct = problem.is_contiguous() && !problem.is_bool;
  const int64_t direct_blocks = direct ? problem.num_elements * problem.element_bytes / kFingerprintBlockBytes : 0;
  std::atomic<uint64_t> lanes[2] = {0, 0};
  parallel_for(0, problem.num_blocks(), kParallelBlocks, [&](int64_t begin, int64_t end) {
    Fingerprint sums = {};
    const int64_t whole = std::clamp(direct_blocks, begin, end);
    if (begin < whole) {
      const auto* bytes = static_cast<const unsigned char*>(problem.data);
      sums.add(hash_blocks(bytes + begin * kFingerprintBlockBytes, whole - begin, begin));
    }
    sums.add(hash_packed(problem, hash_blocks, whole, end));
    for (int lane = 0; lane < 2; ++lane) lanes[lane].fetch_add(sums.lane[lane], std::memory_order_relaxed);
  });
  return fingerprint_digest(problem.header, {{lanes[0].load(), lanes[1].load()}});
}

}  // namespace reprocuda::cpu
