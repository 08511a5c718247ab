#include "scan.h"

#include <algorithm>

#include "../kernels/scan.cuh"
#include "accumulate.h"
#include "dispatch.h"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kLimbPoolBytes = int64_t{16} << 20;
constexpr int64_t kShortestStretch = 128;

int next_power_of_two(int64_t value, int most) {
  int power = 1;
  while (power < value && power < most) power *= 2;
  return power;
}

ScanShape make_shape(const Scan& problem, const Context& context) {
  ScanShape shape{};
  shape.outer = problem.outer;
  shape.length = problem.length;
  shape.inner = problem.inner;
  shape.lanes = next_power_of_two(problem.inner, 32);
  shape.walkers = next_power_of_two(ceil_div(problem.length, kScanItems), kScanThreads / shape.lanes);
  shape.bundles_per_outer = ceil_div(problem.inner, shape.lanes);
  // As many chunks as keep all multiprocessors busy.
  const int64_t tiles = ceil_div(problem.length, shape.tile());
  const int64_t wanted = std::max<int64_t>(1, int64_t{2} * context.num_sms / (problem.outer * shape.bundles_per_outer));
  shape.chunk = ceil_div(tiles, wanted) * shape.tile();
  shape.num_chunks = static_cast<unsigned>(ceil_div(problem.length, shape.chunk));
  return shape;
}

// Columns are cut into so many stretches that the pool holds the limbs of all of them.
template <class Format>
ScanMarks make_marks(const ScanShape& shape, const Context& context) {
  constexpr int64_t kSlots = kLimbPoolBytes / static_cast<int64_t>((Format::kLimbs + 1) * sizeof(int64_t));
  const int64_t columns = shape.num_columns();
  const int64_t wanted = std::max<int64_t>(1, std::min(kSlots / columns, shape.length / kShortestStretch));
  ScanMarks marks{};
  marks.stretch = ceil_div(ceil_div(shape.length, wanted), kScanItems) * kScanItems;
  const int64_t per_column = ceil_div(shape.length, marks.stretch);
  marks.num_stretches = per_column * columns;
  const int64_t words = ceil_div(marks.num_stretches, 32);
  const int64_t num_ends = per_column > 1 ? columns : 0;
  marks.bits = context.temporary<unsigned>(words + num_ends);
  marks.ends = num_ends > 0 ? marks.bits + words : nullptr;
  memset_async(marks.bits, 0, static_cast<size_t>(words + num_ends) * sizeof(unsigned), context.stream);
  return marks;
}

template <class T>
void run_filter(const ScanShape& shape, const T* in, T* out, const ScanMarks& marks, const Context& context) {
  const int64_t bundles = shape.outer * shape.bundles_per_outer;
  const int64_t blocks = ceil_div(bundles, kScanThreads / shape.span()) * shape.num_chunks;
  Sum<T>* totals = nullptr;
  if (shape.num_chunks > 1) {
    totals = context.temporary<Sum<T>>(bundles * shape.num_chunks * shape.lanes);
    launch(scan_totals<T>, static_cast<unsigned>(blocks), kScanThreads, 0, context.stream, shape, in, totals);
  }
  launch(scan_filter<T>, static_cast<unsigned>(blocks), kScanThreads, 0, context.stream, shape, in, out, totals, marks,
         exact_is_forced());
}

template <class T>
void run_exactly(const ScanShape& shape, const T* in, T* out, const ScanMarks& marks, const Context& context) {
  using Format = ScanFormat<T>;
  const int64_t most = int64_t{8} * context.num_sms;
  const unsigned blocks = blocks_for(marks.num_stretches, kScanThreads, most);
  int64_t* limbs = nullptr;
  if (marks.ends != nullptr) {
    limbs = context.temporary<int64_t>((Format::kLimbs + 1) * marks.num_stretches);
    launch(scan_exact_totals<T>, blocks, kScanThreads, 0, context.stream, shape, in, marks, limbs);
    launch(scan_exact_starts<Format>, blocks_for(shape.num_columns() * (Format::kLimbs + 1), kScanWarps, most), kScanThreads,
           0, context.stream, shape, marks, limbs);
  }
  launch(scan_exact_prefixes<T>, blocks, kScanThreads, 0, context.stream, shape, in, out, marks, limbs);
}

}  // namespace

void scan(const Scan& problem, const Context& context) {
  if (problem.outer * problem.length * problem.inner == 0) return;
  const ScanShape shape = make_shape(problem, context);
  dispatch(problem.dtype, [&]<class T>() {
    const T* in = static_cast<const T*>(problem.in);
    T* out = static_cast<T*>(problem.out);
    if constexpr (kIsFloat<T>) {
      const ScanMarks marks = make_marks<ScanFormat<T>>(shape, context);
      run_filter(shape, in, out, marks, context);
      run_exactly(shape, in, out, marks, context);
    } else if constexpr (!std::is_same_v<T, Boolean>) {
      run_filter(shape, in, out, ScanMarks{}, context);
    }
  });
}

}  // namespace reprocuda::cuda
