// Prefix sums of contiguous slices, in which several sums may take turns.
#include <algorithm>
#include <atomic>
#include <type_traits>
#include <vector>

#include "../../numerics/pair_sum.h"
#include "scan_driver.h"

namespace reprocuda::cpu::scans {
namespace {

constexpr int64_t kMostAdds = int64_t{1} << 29;  // between two normalisations; numerics/exact_sum.h allows twice as many
constexpr int64_t kSmallestPiece = 64;           // elements of a sum; shorter pieces cost more to begin than to scan
constexpr int64_t kSegment = 1024;               // elements that are redone together, or not at all

bool any_flag(const uint8_t* flags, int64_t count) {
  return std::any_of(flags, flags + count, [](uint8_t byte) { return byte != 0; });
}

// Contiguous slices, in which `parts` sums take turns.
template <class T>
class Runs {
 public:
  explicit Runs(const Scan& problem)
      : in_(static_cast<const T*>(problem.in)), out_(static_cast<T*>(problem.out)), count_(problem.outer),
        length_(problem.length * problem.inner), parts_(static_cast<int>(problem.inner)),
        kernels_(scan_kernels<T>(parts_)), lanes_(kernels_.lanes), unit_(lanes_ * parts_),
        workers_(workers_for(count_ * length_, kGrain)) {
    for (int part = 0; part < parts_; ++part) kernels_.empty(empty_ + part * kScanStates);
  }

  void scan() {
    const int64_t pieces = num_pieces();
    if (pieces == 1) return scan_slices();
    for (int64_t slice = 0; slice < count_; ++slice) scan_pieces(slice * length_, pieces);
  }

 private:
  int64_t num_states() const { return parts_ * kScanStates; }  // of a run
  int64_t segment_size() const { return std::max<int64_t>(1, kSegment / unit_) * unit_; }
  int64_t flag_bytes(int64_t length) const { return (length + lanes_ - 1) / lanes_; }
  void clear_states(double* states, int64_t runs) const {
    for (int64_t run = 0; run < runs; ++run) std::copy_n(empty_, num_states(), states + run * num_states());
  }

  // So many that all lanes of all workers have work, none too short to pay, and their remainder not longer than one.
  int64_t num_pieces() const {
    const int64_t streams = 2 * workers_ * lanes_;
    if (count_ >= streams / 2) return 1;
    int64_t pieces = std::min(streams, length_ / (kSmallestPiece * parts_)) / lanes_ * lanes_;
    while (pieces > lanes_ && pieces * pieces * unit_ > length_) pieces -= lanes_;
    return pieces > 0 && pieces * pieces * unit_ <= length_ ? pieces : 1;
  }

  // Runs that start at `first`, segment by segment: what a segment loses costs no other. Needs the mode of the filter.
  bool scan_group(int64_t first, int64_t stride, int width, int64_t length, double* states, uint8_t* flags,
                  int64_t flag_stride) const {
    const int64_t segment = segment_size();
    bool failed = false;
    for (int64_t i = 0; i < length; i += segment) {
      const Streams<T> streams{in_ + first + i, out_ + first + i, stride, width, std::min(segment, length - i), parts_};
      failed |= kernels_.streams(streams, states, flags + i / lanes_, flag_stride);
    }
    return failed;
  }

  // Several short slices make a task. The exact sums are integers: they too may run in the mode of the filter.
  void scan_slices() {
    const int64_t bytes = flag_bytes(length_);
    const int64_t groups = (count_ + lanes_ - 1) / lanes_;
    const int64_t batch = std::max<int64_t>(1, kBatch / (lanes_ * length_));
    std::vector<uint8_t> scratch(static_cast<size_t>(workers_ * lanes_ * bytes));
    std::vector<double> all_states(static_cast<size_t>(workers_ * lanes_ * num_states()));
    std::vector<int> failures(static_cast<size_t>(workers_));
    run_shares(workers_, (groups + batch - 1) / batch, [&](int worker, int64_t task) {
      if (length_ <= segment_size() && succeeds_quickly<T>(failures[static_cast<size_t>(worker)], [&] {
            const int64_t first = task * batch * lanes_;
            const int64_t slices = std::min(batch * lanes_, count_ - first);
            return kernels_.quick_rows(in_ + first * length_, out_ + first * length_, slices, length_, parts_);
          })) {
        return;
      }
      const RoundingScope environment(kRoundingMode<T>);
      uint8_t* const flags = scratch.data() + worker * lanes_ * bytes;
      double* const states = length_ <= segment_size() ? nullptr : all_states.data() + worker * lanes_ * num_states();
      for (int64_t group = task * batch; group < std::min(groups, (task + 1) * batch); ++group) {
        const int64_t first = group * lanes_;
        const int width = static_cast<int>(std::min<int64_t>(lanes_, count_ - first));
        if (states != nullptr) clear_states(states, width);
        if (!scan_group(first * length_, length_, width, length_, states, flags, bytes)) continue;
        for (int k = 0; k < width; ++k) finish_slice((first + k) * length_, flags + k * bytes);
      }
    });
  }

  void finish_slice(int64_t start, const uint8_t* flags) const {
    if (!any_flag(flags, flag_bytes(length_))) return;
    PairSum pairs[kMostParts];
    if (finish_by_pairs(pairs, start, length_, flags)) return;
    Accumulator<T> sums[kMostParts];
    for (int part = 0; part < parts_; ++part) sums[part].view().clear();
    finish(sums, start, length_, flags);
  }

  // finish, where pairs of doubles hold all sums: almost as cheap as the filter, but for segments with a flag. If they do
  // not, returns false and may have stored some.
  bool finish_by_pairs(PairSum* sums, int64_t start, int64_t length, const uint8_t* flags) const {
    if constexpr (std::is_same_v<T, double>) return false;  // whose filter they are
    const RoundingScope environment(RoundingMode::kNearest);
    for (int64_t bytes = flag_bytes(length); bytes > 0 && flags[bytes - 1] == 0; --bytes) length = (bytes - 1) * lanes_;
    const int64_t segment = segment_size();
    for (int64_t first = 0; first < length; first += segment) {
      const int64_t size = std::min(segment, length - first);
      const T* in = in_ + start + first;
      const uint8_t* own = flags + first / lanes_;
      if (!any_flag(own, flag_bytes(size))) {
        kernels_.pairs(in, size, parts_, sums);
      } else {
        for (int64_t i = 0; i < size; ++i) {
          PairSum& sum = sums[i % parts_];
          sum.add(to_double(in[i]));
          if ((own[i / lanes_] >> (i % lanes_) & 1) != 0 && !sum.round(out_ + start + first + i)) return false;
        }
      }
      if (any_lost(sums)) return false;
    }
    return true;
  }

  bool any_lost(const PairSum* sums) const {
    return std::any_of(sums, sums + parts_, [](const PairSum& sum) { return sum.lost != 0; });
  }

  // The flagged prefixes of `length` elements at `start`, continuing `sums`, one for each part.
  void finish(Accumulator<T>* sums, int64_t start, int64_t length, const uint8_t* flags) const {
    for (int part = 0; part < parts_; ++part) {
      const int64_t count = (length - part + parts_ - 1) / parts_;
      store_exact(sums[part], in_ + start + part, out_ + start + part, count, parts_, [&](int64_t i) {
        const int64_t position = i * parts_ + part;
        return (flags[position / lanes_] >> (position % lanes_) & 1) != 0;
      });
    }
  }

  // One slice, in equal pieces and what remains: their sums, then the prefixes within each.
  void scan_pieces(int64_t start, int64_t pieces) {
    const int64_t piece = length_ / pieces / unit_ * unit_;
    const int64_t rest = length_ - pieces * piece;
    std::vector<double> states(static_cast<size_t>((pieces + 1) * num_states()));
    std::vector<uint8_t> flags(static_cast<size_t>(flag_bytes(length_)));
    std::atomic<bool> failed{false};
    const auto state_of = [&](int64_t p) { return states.data() + p * num_states(); };
    clear_states(states.data(), pieces + 1);
    run_shares(workers_, pieces, [&](int, int64_t p) {
      const RoundingScope environment(kRoundingMode<T>);
      kernels_.total(in_ + start + p * piece, piece, parts_, state_of(p + 1));
    });
    {
      const RoundingScope environment(kRoundingMode<T>);
      for (int64_t k = num_states(); k < (pieces + 1) * num_states(); k += kScanStates) {
        kernels_.merge(states.data() + k, states.data() + k - num_states());
      }
    }
    run_shares(workers_, pieces / lanes_ + (rest > 0), [&](int, int64_t group) {
      const RoundingScope environment(kRoundingMode<T>);
      const int64_t first = group * lanes_;
      const int64_t offset = first * piece;
      uint8_t* const own = flags.data() + offset / lanes_;
      const bool is_rest = first == pieces;
      if (is_rest ? scan_group(start + offset, 0, 1, rest, state_of(first), own, 0)
                  : scan_group(start + offset, piece, lanes_, piece, state_of(first), own, piece / lanes_)) {
        failed.store(true, std::memory_order_relaxed);
      }
    });
    if (failed.load()) finish_pieces(start, pieces, piece, flags.data());
  }

  void finish_pieces(int64_t start, int64_t pieces, int64_t piece, const uint8_t* flags) const {
    const auto size_of = [&](int64_t p) { return p < pieces ? piece : length_ - pieces * piece; };
    const auto flags_of = [&](int64_t p) { return flags + p * piece / lanes_; };
    const auto has_flag = [&](int64_t p) { return any_flag(flags_of(p), flag_bytes(size_of(p))); };
    int64_t last = pieces;
    while (last >= 0 && !has_flag(last)) --last;
    if (last < 0 || finish_pieces_by_pairs(start, last, piece, size_of, flags_of)) return;
    // [last + 1, parts]: what precedes a piece
    std::vector<Accumulator<T>> sums(static_cast<size_t>((last + 1) * parts_));
    for (auto& sum : sums) sum.view().clear();
    run_shares(workers_, last, [&](int, int64_t p) {
      for (int64_t i = 0; i < piece; ++i) {
        const auto sum = sums[static_cast<size_t>((p + 1) * parts_ + i % parts_)].view();
        sum.add(to_double(in_[start + p * piece + i]));
        if (i % kMostAdds >= kMostAdds - parts_) sum.normalize();
      }
    });
    for (size_t k = static_cast<size_t>(parts_); k < sums.size(); ++k) {
      sums[k].view().normalize();
      sums[k].view().merge(sums[k - static_cast<size_t>(parts_)].view());
      sums[k].view().normalize();
    }
    run_shares(workers_, last + 1, [&](int, int64_t p) {
      if (has_flag(p)) finish(sums.data() + p * parts_, start + p * piece, size_of(p), flags_of(p));
    });
  }

  // Pieces up to the last with a flag, from the sums of those before them.
  template <class SizeOf, class FlagsOf>
  bool finish_pieces_by_pairs(int64_t start, int64_t last, int64_t piece, SizeOf&& size_of, FlagsOf&& flags_of) const {
    if constexpr (std::is_same_v<T, double>) return false;
    std::vector<PairSum> sums(static_cast<size_t>((last + 1) * parts_));  // what precedes a piece
    std::atomic<bool> held{true};
    const auto sums_of = [&](int64_t p) { return sums.data() + p * parts_; };
    run_shares(workers_, last, [&](int, int64_t p) {
      if (!held.load(std::memory_order_relaxed)) return;
      kernels_.pairs(in_ + start + p * piece, piece, parts_, sums_of(p + 1));
      if (any_lost(sums_of(p + 1))) held.store(false, std::memory_order_relaxed);
    });
    {
      const RoundingScope environment(RoundingMode::kNearest);
      for (size_t k = static_cast<size_t>(parts_); k < sums.size(); ++k) sums[k].merge(sums[k - static_cast<size_t>(parts_)]);
    }
    run_shares(workers_, last + 1, [&](int, int64_t p) {
      if (!held.load(std::memory_order_relaxed) || any_lost(sums_of(p))) {
        held.store(false, std::memory_order_relaxed);
      } else if (any_flag(flags_of(p), flag_bytes(size_of(p)))) {
        PairSum own[kMostParts];
        std::copy_n(sums_of(p), parts_, own);
        if (!finish_by_pairs(own, start + p * piece, size_of(p), flags_of(p))) held.store(false, std::memory_order_relaxed);
      }
    });
    return held.load();
  }

  const T* in_;
  T* out_;
  int64_t count_;
  int64_t length_;
  int parts_;
  ScanKernels<T> kernels_;
  int64_t lanes_;
  int64_t unit_;
  int workers_;
  double empty_[kMostParts * kScanStates] = {};
};

}  // namespace

template <class T>
void scan_runs(const Scan& problem) {
  Runs<T>(problem).scan();
}
template void scan_runs<float>(const Scan&);
template void scan_runs<double>(const Scan&);
template void scan_runs<Half>(const Scan&);
template void scan_runs<BFloat16>(const Scan&);

}  // namespace reprocuda::cpu::scans
