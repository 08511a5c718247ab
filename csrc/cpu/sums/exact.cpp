#include "exact.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "../../numerics/exact_product.h"
#include "../../numerics/exact_sum.h"
#include "../parallel.h"
#include "../workspace.h"
#include "exact_format.h"

namespace reprocuda::cpu {
namespace {

// The limbs of a tile of columns, limb by limb, and their flags behind them.
template <class Format>
class ExactTile {
 public:
  static constexpr int64_t kBytesPerColumn = Format::kLimbs * sizeof(int64_t) + sizeof(uint32_t);
  static constexpr int64_t kColumns = kExactBytes / kBytesPerColumn;
  static_assert(kColumns >= 16);

  ExactTile(int64_t* memory, int64_t columns) : limbs_(memory), columns_(columns) {
    flags_ = reinterpret_cast<uint32_t*>(memory + Format::kLimbs * columns);
  }
  ExactSumOf<Format> operator[](int64_t column) const { return {limbs_ + column, columns_, flags_ + column}; }
  int64_t* limbs() const { return limbs_; }
  uint32_t* flags() const { return flags_; }
  void clear() const { std::memset(limbs_, 0, columns_ * kBytesPerColumn); }
  bool is_empty(int limb) const {
    int64_t any = 0;
    for (int64_t c = 0; c < columns_; ++c) any |= limbs_[limb * columns_ + c];
    return any == 0;
  }
  void normalize() const {
    for (int64_t c = 0; c < columns_; ++c) (*this)[c].normalize();
  }
  void merge(const ExactTile& other) const {
    for (int64_t c = 0; c < columns_; ++c) (*this)[c].merge(other[c]);
  }

 private:
  int64_t* limbs_;
  uint32_t* flags_;
  int64_t columns_;
};

// Neighbouring columns of plain terms go by vectors.
template <class Format>
bool by_vector(const int32_t* columns, int64_t count) {
  return std::is_same_v<Format, BinnedTerms> && count >= 8 && columns[count - 1] - columns[0] == count - 1;
}

template <class T, class Position>
const RowsKernels<T, Position>& kernels() {
  static const auto selected = rows_kernels<T, Position>(Reduction::kSum);
  return selected;
}

// Returns how many columns it leaves, at the front of `columns`.
template <class T, class Position>
int64_t sum_in_pairs(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target, int32_t* columns,
                     int64_t count) {
  const bool divides = job.divisor(last - first) != 1;
  if (std::is_same_v<T, double> || job.first_stage == FirstStage::kWide || divides) return count;
  const RoundingScope scope(RoundingMode::kNearest);
  return kernels<T, Position>().sum_in_pairs(job, first, last, target, columns, count);
}

template <class Format, class T, class Position>
void add_rows_by_vector(const RowsJob<T, Position>& job, int64_t first, int64_t last, const int32_t* columns, int64_t count,
                        const ExactTile<Format>& tile) {
  kernels<T, Position>().add_to_bins(job, first, last, columns[0], count, tile.limbs(), tile.flags());
}

// Adds the columns of rows [first, last) to the tile.
template <class Format, class T, class Position>
void add_rows(const RowsJob<T, Position>& job, int64_t first, int64_t last, const int32_t* columns, int64_t count,
              const ExactTile<Format>& tile) {
  constexpr int64_t kMostAdds = ExactAccumulation<Format>::kMostAdds;
  for (int64_t begin = first; begin < last; begin += kMostAdds) {
    const int64_t end = std::min(last, begin + kMostAdds);
    if (by_vector<Format>(columns, count)) {
      add_rows_by_vector(job, begin, end, columns, count, tile);
      if (end < last) tile.normalize();
      continue;
    }
    for (int64_t position = begin; position < end; ++position) {
      const T* const row = job.src + job.grouping.row(position) * job.inner + job.first_column;
      Alpha alpha = job.alpha;
      alpha.real = job.factor(position);
      for (int64_t c = 0; c < count; ++c) add_contribution<Format>(tile[c], alpha, job.complex_pairs, row, columns[c]);
    }
    if (end < last) tile.normalize();
  }
}

template <class Format, class T, class Position>
void finish(const RowsJob<T, Position>& job, int64_t num_rows, int64_t target, const int32_t* columns, int64_t count,
            const ExactTile<Format>& tile) {
  const int64_t at = target * job.inner + job.first_column;
  const int64_t divisor = job.divisor(num_rows);
  if (job.self != nullptr && by_vector<Format>(columns, count)) {
    RowsJob<T, Position> self = job;
    self.src = job.self;
    self.grouping.permutation = nullptr;
    add_rows_by_vector(self, target, target + 1, columns, count, tile);
  } else if (job.self != nullptr) {
    for (int64_t c = 0; c < count; ++c) add_term(tile[c], job.self[at + columns[c]]);
  }
  if constexpr (std::is_same_v<Format, BinnedTerms>) {
    // Few bins are in use, mostly the same for all columns.
    int low = 0;
    int high = Format::kLimbs - 1;
    while (low < high && tile.is_empty(low)) ++low;
    while (high > low && tile.is_empty(high)) --high;
    for (int64_t c = 0; c < count; ++c) job.out[at + columns[c]] = tile[c].template round_between<T>(divisor, low, high);
  } else {
    for (int64_t c = 0; c < count; ++c) job.out[at + columns[c]] = tile[c].template round_mean<T>(divisor);
  }
}

template <class Format, class T, class Position>
void exact_columns(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target, const int32_t* columns,
                   int64_t count, int64_t* limbs) {
  for (int64_t begin = 0; begin < count; begin += ExactTile<Format>::kColumns) {
    const int64_t width = std::min(ExactTile<Format>::kColumns, count - begin);
    const ExactTile<Format> tile(limbs, width);
    tile.clear();
    add_rows(job, first, last, columns + begin, width, tile);
    finish(job, last - first, target, columns + begin, width, tile);
  }
}

template <class Format, class T, class Position>
void exact_columns_parallel(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target,
                            const int32_t* columns, int64_t count) {
  constexpr int64_t kWorkerRows = 1 << 12;
  const int workers = workers_for(last - first, kWorkerRows);
  std::byte* memory = nullptr;
  const Workspace workspace = lease([&](Layout& layout) { memory = layout.take<std::byte>(workers * kExactBytes); });
  for (int64_t begin = 0; begin < count; begin += ExactTile<Format>::kColumns) {
    const int64_t width = std::min(ExactTile<Format>::kColumns, count - begin);
    const auto tile_of = [&](int64_t part) {
      return ExactTile<Format>(reinterpret_cast<int64_t*>(memory + part * kExactBytes), width);
    };
    run_tasks(workers, workers, [&](int, int64_t part) {
      const ExactTile<Format> tile = tile_of(part);
      tile.clear();
      add_rows(job, first + part_begin(last - first, workers, part), first + part_begin(last - first, workers, part + 1),
               columns + begin, width, tile);
      tile.normalize();
    });
    for (int part = 1; part < workers; ++part) tile_of(0).merge(tile_of(part));
    finish(job, last - first, target, columns + begin, width, tile_of(0));
  }
}

// Products have one output at a time. Their words seldom outgrow the first few; at most they take the bits of the source.
template <class T, class Position>
void multiply_exactly(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target, const int32_t* columns,
                      int64_t count) {
  const int64_t at = target * job.inner + job.first_column;
  std::vector<uint32_t> words;
  const auto memory = [&](int64_t size) {
    if (size > static_cast<int64_t>(words.size())) words.resize(size);
    return words.data();
  };
  for (int64_t c = 0; c < count; ++c) {
    const T* const src = job.src + job.first_column + columns[c];
    const auto multiply_all = [&](ExactProduct& product) {
      if (job.self != nullptr) product.multiply(to_double(job.self[at + columns[c]]));
      for (int64_t position = first; position < last; ++position) {
        product.multiply(to_double(src[job.grouping.row(position) * job.inner]));
      }
    };
    T result{};  // not in place: the next round may need `self` again
    multiply_until_settled(last - first + 1, std::numeric_limits<int64_t>::max(), memory, multiply_all, &result);
    job.out[at + columns[c]] = result;
  }
}

}  // namespace

template <class T, class Position>
void exact_segment(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target, int32_t* columns,
                   int64_t count, int64_t* limbs) {
  if (job.reduction == Reduction::kProd) return multiply_exactly(job, first, last, target, columns, count);
  count = sum_in_pairs(job, first, last, target, columns, count);
  if (count == 0) return;
  with_exact_format<T>(job.alpha, [&](auto format) {
    exact_columns<decltype(format)>(job, first, last, target, columns, count, limbs);
  });
}

template <class T, class Position>
void exact_segment_parallel(const RowsJob<T, Position>& job, int64_t first, int64_t last, int64_t target,
                            const int32_t* columns, int64_t count) {
  if (job.reduction == Reduction::kProd) return multiply_exactly(job, first, last, target, columns, count);
  with_exact_format<T>(job.alpha, [&](auto format) {
    exact_columns_parallel<decltype(format)>(job, first, last, target, columns, count);
  });
}

template void exact_segment(const RowsJob<float, int32_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<float, int64_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<double, int32_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<double, int64_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<Half, int32_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<Half, int64_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<BFloat16, int32_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment(const RowsJob<BFloat16, int64_t>&, int64_t, int64_t, int64_t, int32_t*, int64_t, int64_t*);
template void exact_segment_parallel(const RowsJob<float, int32_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<float, int64_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<double, int32_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<double, int64_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<Half, int32_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<Half, int64_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<BFloat16, int32_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);
template void exact_segment_parallel(const RowsJob<BFloat16, int64_t>&, int64_t, int64_t, int64_t, const int32_t*, int64_t);

}  // namespace reprocuda::cpu
