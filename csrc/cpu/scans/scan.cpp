#include "scan.h"

#include <algorithm>
#include <vector>

#include "scan_driver.h"

namespace reprocuda::cpu {
namespace scans {
namespace {

constexpr int64_t kMostAtOnce = 1 << 16;  // elements of a quick attempt

template <class T>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(T));

// So many that all workers have some, and none writes to the line of another.
template <class T>
int64_t columns_of_block(const Scan& problem, int workers) {
  const int64_t shares = std::max<int64_t>(1, 2 * workers / problem.outer);
  const int64_t share = (problem.inner + shares - 1) / shares;
  return std::min(kColumnBlock, (share + kLine<T> - 1) / kLine<T> * kLine<T>);
}

// Neighbouring columns, block by block; several small blocks make a task.
template <class T>
class Columns {
 public:
  explicit Columns(const Scan& problem)
      : in_(static_cast<const T*>(problem.in)), out_(static_cast<T*>(problem.out)), outer_(problem.outer),
        length_(problem.length), inner_(problem.inner), kernels_(scan_kernels<T>(1)),
        workers_(workers_for(outer_ * length_ * inner_, kGrain)), block_(block_of(problem)),
        blocks_((inner_ + block_ - 1) / block_) {}

  void scan() {
    const int64_t count = outer_ * blocks_;
    const int64_t batch = std::max<int64_t>(1, kBatch / (length_ * std::min(inner_, block_)));
    std::vector<int> failures(static_cast<size_t>(workers_));
    std::vector<uint8_t> flags(static_cast<size_t>(workers_ * length_));
    run_shares(workers_, (count + batch - 1) / batch, [&](int worker, int64_t task) {
      for (int64_t k = task * batch; k < std::min(count, (task + 1) * batch); ++k) {
        const int64_t first = k % blocks_ * block_;
        scan_block(k / blocks_ * length_ * inner_ + first, std::min(block_, inner_ - first),
                   failures[static_cast<size_t>(worker)], flags.data() + worker * length_);
      }
    });
  }

 private:
  // What a bit costs that gets lost must not be too much.
  int64_t block_of(const Scan& problem) const {
    const int64_t most = std::max(kLine<T>, kMostAtOnce / problem.length / kLine<T> * kLine<T>);
    return std::min(most, columns_of_block<T>(problem, workers_));
  }

  void scan_block(int64_t start, int64_t width, int& failures, uint8_t* flags) const {
    if (length_ <= kMostAtOnce && succeeds_quickly<T>(failures, [&] {
          return kernels_.quick_columns(in_ + start, out_ + start, length_, inner_, width);
        })) {
      return;
    }
    for (int64_t k = 0; k < width; k += kernels_.lanes) {
      filter(start + k, static_cast<int>(std::min<int64_t>(kernels_.lanes, width - k)), flags);
    }
  }

  void filter(int64_t start, int width, uint8_t* flags) const {
    const T* in = in_ + start;
    T* out = out_ + start;
    {
      const RoundingScope environment(kRoundingMode<T>);
      if (!kernels_.columns(in, out, length_, inner_, width, flags)) return;
    }
    for (int lane = 0; lane < width; ++lane) {
      Accumulator<T> sum;
      sum.view().clear();
      store_exact(sum, in + lane, out + lane, length_, inner_, [&](int64_t i) { return (flags[i] >> lane & 1) != 0; });
    }
  }

  const T* in_;
  T* out_;
  int64_t outer_;
  int64_t length_;
  int64_t inner_;
  ScanKernels<T> kernels_;
  int workers_;
  int64_t block_;
  int64_t blocks_;
};

// One element to a prefix: only NaNs change.
template <class T>
void scan_single(const Scan& problem) {
  using Bits = typename FloatFormat<T>::Bits;
  const int64_t count = problem.outer * problem.inner;
  const T* in = static_cast<const T*>(problem.in);
  T* out = static_cast<T*>(problem.out);
  parallel_for(0, count, kGrain, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const Bits bits = bits_of(in[i]);
      const Bits magnitude = bits & static_cast<Bits>(FloatFormat<T>::kSign - 1);
      out[i] = from_bits<T>(magnitude > FloatFormat<T>::kInfinity ? FloatFormat<T>::kQuietNaN : bits);
    }
  });
}

template <class T>
void scan_exactly(const Scan& problem) {
  if (problem.length == 1) return scan_single<T>(problem);
  // Few columns do not fill vectors, and neither cut one long slice up.
  if (problem.inner <= kMostParts && problem.inner != scan_kernels<T>(1).lanes) return scan_runs<T>(problem);
  Columns<T>(problem).scan();
}

// Each row of some columns and the sums of those before it.
template <class T>
void add_rows(const T* in, T* out, int64_t length, int64_t stride, int64_t width) {
  std::copy_n(in, width, out);
  for (int64_t i = 1; i < length; ++i) {
    const T* const __restrict__ before = out + (i - 1) * stride;
    const T* const __restrict__ own = in + i * stride;
    T* const __restrict__ sums = out + i * stride;
    for (int64_t k = 0; k < width; ++k) sums[k] = static_cast<T>(before[k] + own[k]);
  }
}

// Unsigned, for which overflow wraps.
template <class T>
void scan_integers(const Scan& problem) {
  if (problem.inner == 1) {
    const int workers = workers_for(problem.outer * problem.length, kGrain);
    parallel_for(0, problem.outer, (problem.outer + workers - 1) / workers, [&](int64_t first, int64_t last) {
      for (int64_t slice = first; slice < last; ++slice) {
        const T* in = static_cast<const T*>(problem.in) + slice * problem.length;
        T* out = static_cast<T*>(problem.out) + slice * problem.length;
        T sum = 0;
        for (int64_t i = 0; i < problem.length; ++i) out[i] = sum = static_cast<T>(sum + in[i]);
      }
    });
    return;
  }
  const int workers = workers_for(problem.outer * problem.length * problem.inner, kGrain);
  const int64_t block = columns_of_block<T>(problem, workers);
  const int64_t blocks = (problem.inner + block - 1) / block;
  const int64_t count = problem.outer * blocks;
  const int64_t batch = std::max<int64_t>(1, kBatch / (problem.length * std::min(problem.inner, block)));
  run_shares(workers, (count + batch - 1) / batch, [&](int, int64_t task) {
    for (int64_t k = task * batch; k < std::min(count, (task + 1) * batch); ++k) {
      const int64_t first = k % blocks * block;
      const int64_t start = k / blocks * problem.length * problem.inner + first;
      add_rows(static_cast<const T*>(problem.in) + start, static_cast<T*>(problem.out) + start, problem.length, problem.inner,
               std::min(block, problem.inner - first));
    }
  });
}

}  // namespace
}  // namespace scans

void scan(const Scan& problem) {
  if (problem.outer * problem.length * problem.inner == 0) return;
  switch (problem.dtype) {
    case Dtype::kUInt8:
    case Dtype::kInt8: return scans::scan_integers<uint8_t>(problem);
    case Dtype::kInt16: return scans::scan_integers<uint16_t>(problem);
    case Dtype::kInt32: return scans::scan_integers<uint32_t>(problem);
    case Dtype::kInt64: return scans::scan_integers<uint64_t>(problem);
    case Dtype::kFloat16: return scans::scan_exactly<Half>(problem);
    case Dtype::kBFloat16: return scans::scan_exactly<BFloat16>(problem);
    case Dtype::kFloat32: return scans::scan_exactly<float>(problem);
    case Dtype::kFloat64: return scans::scan_exactly<double>(problem);
    case Dtype::kBool: return;
  }
}

}  // namespace reprocuda::cpu
