// Running products and log-sum-exps on the CPU, in the order of numerics/running.h.
//
// What: tiles of 8 streams by 64 elements, so that vectors hold streams and no chain of products runs in one register. Where
// there are slices enough, each stream is a slice, block after block; else streams are neighbouring blocks of one slice. For
// products of short slices that fit in a small buffer together with their neighbours, there are no tiles.
// Guarantee: the order knows nothing of lanes or threads, so neither changes a bit.
// Cost: one pass; two, of which the first writes nothing, where one slice is shared among threads, group by group.
#include "running.h"

#include <algorithm>
#include <vector>

#include "../rounding_mode.h"
#include "../shares.h"
#include "running_kernel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kGrain = 1 << 13;  // elements that are worth a thread
constexpr int64_t kGroup = int64_t{kRunningBlock} * kBlocksOfGroup;

template <class Op, class T>
class Slices {
 public:
  explicit Slices(const RunningScan& problem)
      : in_(static_cast<const T*>(problem.in)), out_(static_cast<T*>(problem.out)), count_(problem.outer * problem.inner),
        length_(problem.length), inner_(problem.inner), step_(problem.inner * Op::kComponents),
        kernels_(running_kernels<Op, T>()), workers_(workers_for(count_ * length_, kGrain)) {}

  void run() const {
    const int64_t block = length_ * step_;
    if (kernels_.short_slices != nullptr && length_ <= kRunningBlock && block <= kShortCells) {
      const int64_t blocks = count_ / inner_;
      const int64_t batch = (kGrain + block - 1) / block;
      return run_shares(workers_, (blocks + batch - 1) / batch, [&](int, int64_t task) {
        const int64_t start = task * batch * block;
        kernels_.short_slices(in_ + start, out_ + start, std::min(batch, blocks - task * batch), length_, inner_);
      });
    }
    const int64_t lane_groups = (count_ + kRunningLanes - 1) / kRunningLanes;
    if (lane_groups >= workers_ && (count_ >= kRunningLanes || length_ <= kRunningBlock)) {
      // Several short ones make a task.
      const int64_t batch = std::max<int64_t>(1, kGrain / (kRunningLanes * length_));
      return run_shares(workers_, (lane_groups + batch - 1) / batch, [&](int, int64_t task) {
        for (int64_t g = task * batch; g < std::min(lane_groups, (task + 1) * batch); ++g) scan_slices(g * kRunningLanes);
      });
    }
    const int64_t groups = (length_ + kGroup - 1) / kGroup;
    if (count_ >= workers_ || groups == 1) {
      return run_shares(workers_, count_, [&](int, int64_t slice) {
        auto before = Preceding<Op>::nothing();
        for (int64_t group = 0; group < groups; ++group) before.append(scan_group<true>(slice, group, before));
      });
    }
    for (int64_t slice = 0; slice < count_; ++slice) {
      std::vector<Preceding<Op>> before(static_cast<size_t>(groups), Preceding<Op>::nothing());
      run_shares(workers_, groups - 1, [&](int, int64_t group) {
        before[static_cast<size_t>(group + 1)] = scan_group<false>(slice, group, Preceding<Op>::nothing());
      });
      const RoundingScope environment(RoundingMode::kNearest);  // the caller may flush subnormals
      for (size_t group = 1; group < before.size(); ++group) {
        Preceding<Op> all = before[group - 1];
        all.append(before[group]);
        before[group] = all;
      }
      run_shares(workers_, groups, [&](int, int64_t group) {
        scan_group<true>(slice, group, before[static_cast<size_t>(group)]);
      });
    }
  }

 private:
  // Of the first component of its first element.
  int64_t start_of(int64_t slice) const {
    return (slice / inner_ * length_ * inner_ + slice % inner_) * Op::kComponents;
  }
  int rows_at(int64_t element) const { return static_cast<int>(std::min<int64_t>(kRunningBlock, length_ - element)); }

  // A slice a lane.
  void scan_slices(int64_t first) const {
    Tile<Op> tile;
    TileShape shape;
    typename Op::State totals[kRunningLanes];
    shape.step = step_;
    shape.width = static_cast<int>(std::min<int64_t>(kRunningLanes, count_ - first));
    Preceding<Op> groups[kRunningLanes];
    Preceding<Op> blocks[kRunningLanes];
    for (int w = 0; w < kRunningLanes; ++w) {
      groups[w] = blocks[w] = Preceding<Op>::nothing();
      shape.first[w] = start_of(first + std::min(w, shape.width - 1));
    }
    for (int64_t i = 0; i < length_; i += kRunningBlock) {
      shape.rows = rows_at(i);
      std::fill_n(shape.counts, kRunningLanes, shape.rows);
      kernels_.load(in_, shape, tile, totals);
      if (i % kGroup == 0) {
        for (int w = 0; w < kRunningLanes; ++w) {
          groups[w].append(blocks[w]);
          blocks[w] = Preceding<Op>::nothing();
        }
      }
      Preceding<Op> before[kRunningLanes];
      const bool is_last = i + kRunningBlock >= length_;
      for (int w = 0; w < kRunningLanes; ++w) {
        before[w] = groups[w];
        before[w].append(blocks[w]);
        if (!is_last && w < shape.width) blocks[w].append(totals[w]);
      }
      if (i > 0) kernels_.precede(tile, shape, before);
      kernels_.store(tile, shape, out_);
      for (int64_t& position : shape.first) position += kRunningBlock * step_;
    }
  }

  // A block a lane. Returns what the group comes to, unless it is the slice's last.
  template <bool kWrites>
  Preceding<Op> scan_group(int64_t slice, int64_t group, const Preceding<Op>& before_group) const {
    Tile<Op> tile;
    TileShape shape;
    typename Op::State totals[kRunningLanes];
    shape.step = step_;
    auto blocks = Preceding<Op>::nothing();
    const int64_t end = std::min(length_, (group + 1) * kGroup);
    for (int64_t i = group * kGroup; i < end; i += kRunningLanes * kRunningBlock) {
      shape.width = 0;
      for (int w = 0; w < kRunningLanes; ++w) {
        const int64_t at = i + w * kRunningBlock;
        shape.first[w] = start_of(slice) + (at < end ? at : i) * step_;
        shape.counts[w] = at < end ? rows_at(at) : 0;
        shape.width += at < end;
      }
      shape.rows = shape.counts[0];
      kernels_.load(in_, shape, tile, totals);
      Preceding<Op> before[kRunningLanes];
      for (int w = 0; w < kRunningLanes; ++w) {
        before[w] = before_group;
        before[w].append(blocks);
        if (shape.counts[w] == kRunningBlock) blocks.append(totals[w]);
      }
      if constexpr (kWrites) {
        kernels_.precede(tile, shape, before);
        kernels_.store(tile, shape, out_);
      }
    }
    return blocks;
  }

  const T* in_;
  T* out_;
  int64_t count_;
  int64_t length_;
  int64_t inner_;
  int64_t step_;
  RunningKernels<Op, T> kernels_;
  int workers_;
};

template <class T>
void run_floats(const RunningScan& problem) {
  if (problem.operation == Running::kLogSumExp) return Slices<LogSumExp, T>(problem).run();
  if constexpr (!std::is_same_v<T, BFloat16>) {
    if (problem.is_complex) return Slices<ComplexProduct, T>(problem).run();
  }
  Slices<RealProduct, T>(problem).run();
}

}  // namespace

void running(const RunningScan& problem) {
  if (problem.outer * problem.length * problem.inner == 0) return;
  switch (problem.dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8: return Slices<IntegerProduct, uint8_t>(problem).run();
    case Dtype::kInt16: return Slices<IntegerProduct, uint16_t>(problem).run();
    case Dtype::kInt32: return Slices<IntegerProduct, uint32_t>(problem).run();
    case Dtype::kInt64: return Slices<IntegerProduct, uint64_t>(problem).run();
    case Dtype::kFloat16: return run_floats<Half>(problem);
    case Dtype::kBFloat16: return run_floats<BFloat16>(problem);
    case Dtype::kFloat32: return run_floats<float>(problem);
    case Dtype::kFloat64: return run_floats<double>(problem);
    case Dtype::kBool: return;
  }
}

}  // namespace reprocuda::cpu
