// The fingerprint of a tensor's bits, on the CPU.
//
// What: numerics/fingerprint.h. Whole blocks of a contiguous tensor are hashed where they lie. All others, and bools, are
// packed first: a block at a time, on the stack, or 16 lines of a transposed tensor at once.
// Guarantee: the sums over blocks are modulo 2^64, so threads add theirs in any order.
// Cost: one pass at about the speed of memory; a transposed tensor takes at most 1 MiB a thread. Up to kParallelBlocks blocks
// no thread is woken.
#include "fingerprint.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

#include "../parallel.h"
#include "../workspace.h"
#include "fingerprint_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kParallelBlocks = 64;  // a thread's least share: 128 KiB, some ten times what waking it costs

constexpr int64_t kLeastSlab = 8;        // blocks of a transposed tensor packed at once: 16 KiB
constexpr int64_t kMostSlab = 512;       // 1 MiB, of the second-level cache
constexpr int64_t kTileLines = 16;
constexpr int64_t kTileElements = 16;

template <int kBytes>
void copy_elements(unsigned char* to, const unsigned char* from, int64_t stride, int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * kBytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kBytes, from + i * stride * kBytes, kBytes);
}

// tile[line, i] = source[i * stride + line * line_stride]; both counts constant for a whole tile.
template <int kBytes, class Lines, class Elements>
void read_tile(unsigned char (*tile)[kTileElements * kBytes], const unsigned char* source, int64_t line_stride,
               int64_t stride, Lines lines, Elements count) {
  for (int64_t i = 0; i < count; ++i) {
    const unsigned char* from = source + i * stride * kBytes;
    for (int64_t line = 0; line < lines; ++line) {
      std::memcpy(tile[line] + i * kBytes, from + line * line_stride * kBytes, kBytes);
    }
  }
}

// `lines` lines of `length` elements, line_stride apart in memory and packed one behind the other. They are read 16 elements
// across all lines at a time, so that a cache line which holds neighbours of several lines is read once.
template <int kBytes>
void copy_lines(unsigned char* to, const unsigned char* from, int64_t line_stride, int64_t stride, int64_t lines,
                int64_t length) {
  using WholeLines = std::integral_constant<int64_t, kTileLines>;
  using WholeElements = std::integral_constant<int64_t, kTileElements>;
  unsigned char tile[kTileLines][kTileElements * kBytes];
  for (int64_t begin = 0; begin < length; begin += kTileElements) {
    const int64_t count = std::min<int64_t>(kTileElements, length - begin);
    const unsigned char* source = from + begin * stride * kBytes;
    if (lines == kTileLines && count == kTileElements && line_stride == 1) {
      read_tile<kBytes>(tile, source, 1, stride, WholeLines{}, WholeElements{});
    } else {
      read_tile<kBytes>(tile, source, line_stride, stride, lines, count);
    }
    for (int64_t line = 0; line < lines; ++line) {
      std::memcpy(to + (line * length + begin) * kBytes, tile[line], static_cast<size_t>(count) * kBytes);
    }
  }
}

struct Copies {
  void (*elements)(unsigned char* to, const unsigned char* from, int64_t stride, int64_t count);
  void (*lines)(unsigned char* to, const unsigned char* from, int64_t line_stride, int64_t stride, int64_t lines,
                int64_t length);
};

Copies copies_of(int bytes) {
  switch (bytes) {
    case 1: return {copy_elements<1>, copy_lines<1>};
    case 2: return {copy_elements<2>, copy_lines<2>};
    case 4: return {copy_elements<4>, copy_lines<4>};
    case 8: return {copy_elements<8>, copy_lines<8>};
    default: return {copy_elements<16>, copy_lines<16>};
  }
}

// Does the next line lie nearer in memory than the next element?
bool is_transposed(const FingerprintProblem& problem) {
  const int last = problem.ndim - 1;
  return last > 0 && problem.strides[last - 1] < problem.strides[last];
}

// Elements [first, first + count) in row-major order, packed.
void pack_elements(const FingerprintProblem& problem, int64_t first, int64_t count, unsigned char* to) {
  const Copies copy = copies_of(problem.element_bytes);
  const auto* data = static_cast<const unsigned char*>(problem.data);
  const int last = problem.ndim - 1;
  if (last < 0) {
    copy.elements(to, data, 1, count);
    return;
  }
  const bool transposed = is_transposed(problem);
  const int64_t length = problem.sizes[last];
  int64_t coordinates[kMaxDims];
  int64_t offset = 0;
  for (int d = last; d >= 0; --d) {
    coordinates[d] = first % problem.sizes[d];
    first /= problem.sizes[d];
    offset += coordinates[d] * problem.strides[d];
  }
  for (;;) {
    int64_t lines = 1;
    int64_t run = std::min(count, length - coordinates[last]);
    const unsigned char* from = data + offset * problem.element_bytes;
    if (transposed && run == length) {
      lines = std::min({count / length, problem.sizes[last - 1] - coordinates[last - 1], kTileLines});
      run *= lines;
      copy.lines(to, from, problem.strides[last - 1], problem.strides[last], lines, length);
    } else {
      copy.elements(to, from, problem.strides[last], run);
    }
    count -= run;
    if (count == 0) return;
    to += run * problem.element_bytes;
    // On to the next line.
    offset -= coordinates[last] * problem.strides[last];
    coordinates[last] = 0;
    for (int d = last - 1; d >= 0; --d, lines = 1) {
      offset += lines * problem.strides[d];
      if ((coordinates[d] += lines) < problem.sizes[d]) break;
      offset -= problem.sizes[d] * problem.strides[d];
      coordinates[d] = 0;
    }
  }
}

// Packs blocks [begin, end) into `packed` and hashes them there.
Fingerprint hash_packed(const FingerprintProblem& problem, HashBlocks hash_blocks, int64_t begin, int64_t end,
                        unsigned char* packed) {
  const int64_t elements = kFingerprintBlockBytes / problem.element_bytes;
  const int64_t count = std::min(end * elements, problem.num_elements) - begin * elements;
  const int64_t bytes = count * problem.element_bytes;
  const int64_t padded = (end - begin) * kFingerprintBlockBytes;
  pack_elements(problem, begin * elements, count, packed);
  std::memset(packed + bytes, 0, static_cast<size_t>(padded - bytes));
  if (problem.is_bool) {
    for (int64_t i = 0; i < padded; ++i) packed[i] = packed[i] != 0;
  }
  return hash_blocks(packed, end - begin, begin);
}

// The sums of all workers.
class SharedSums {
 public:
  void add(const Fingerprint& sums) {
    for (int lane = 0; lane < 2; ++lane) lanes_[lane].fetch_add(sums.lane[lane], std::memory_order_relaxed);
  }
  Fingerprint total() const { return {{lanes_[0].load(), lanes_[1].load()}}; }

 private:
  std::atomic<uint64_t> lanes_[2] = {0, 0};
};

// Whole lines of a transposed tensor, as many at once as share a cache line, packed in a worker's own memory.
void hash_transposed(const FingerprintProblem& problem, HashBlocks hash_blocks, int64_t slab_blocks, SharedSums* sums) {
  const int64_t blocks = problem.num_blocks();
  const int64_t slabs = (blocks + slab_blocks - 1) / slab_blocks;
  const int workers = static_cast<int>(std::min<int64_t>(workers_for(blocks, kParallelBlocks), slabs));
  const int64_t slab_bytes = slab_blocks * kFingerprintBlockBytes;
  const Workspace memory(static_cast<size_t>(workers * slab_bytes));
  run_tasks(workers, slabs, [&](int worker, int64_t slab) {
    auto* packed = reinterpret_cast<unsigned char*>(memory.data() + worker * slab_bytes);
    const int64_t begin = slab * slab_blocks;
    sums->add(hash_packed(problem, hash_blocks, begin, std::min(begin + slab_blocks, blocks), packed));
  });
}

// Blocks where they lie, as far as that is possible; else packed one by one, on the stack.
void hash_in_place(const FingerprintProblem& problem, HashBlocks hash_blocks, SharedSums* sums) {
  const bool direct = problem.is_contiguous() && !problem.is_bool;
  const int64_t direct_blocks = direct ? problem.num_elements * problem.element_bytes / kFingerprintBlockBytes : 0;
  parallel_for(0, problem.num_blocks(), kParallelBlocks, [&](int64_t begin, int64_t end) {
    alignas(64) unsigned char packed[kFingerprintBlockBytes];
    Fingerprint mine = {};
    const int64_t whole = std::clamp(direct_blocks, begin, end);
    if (begin < whole) {
      const auto* bytes = static_cast<const unsigned char*>(problem.data);
      mine.add(hash_blocks(bytes + begin * kFingerprintBlockBytes, whole - begin, begin));
    }
    for (int64_t block = whole; block < end; ++block) {
      mine.add(hash_packed(problem, hash_blocks, block, block + 1, packed));
    }
    sums->add(mine);
  });
}

}  // namespace

Fingerprint fingerprint(const FingerprintProblem& problem) {
  static const HashBlocks hash_blocks = block_hash();
  SharedSums sums;
  const int64_t blocks = problem.num_blocks();
  // A slab of fewer than two lines would share nothing.
  const int64_t line_bytes = problem.ndim > 0 ? problem.sizes[problem.ndim - 1] * problem.element_bytes : 0;
  if (blocks >= kLeastSlab && is_transposed(problem) && 2 * line_bytes <= kMostSlab * kFingerprintBlockBytes) {
    const int64_t wanted = (kTileLines * line_bytes + kFingerprintBlockBytes - 1) / kFingerprintBlockBytes;
    hash_transposed(problem, hash_blocks, std::clamp(wanted, kLeastSlab, kMostSlab), &sums);
  } else {
    hash_in_place(problem, hash_blocks, &sums);
  }
  return fingerprint_digest(problem.header, sums.total());
}

}  // namespace reprocuda::cpu
