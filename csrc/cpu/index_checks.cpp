#include "index_checks.h"

#include <algorithm>

#include "parallel.h"

namespace reprocuda::cpu {
namespace {

constexpr int64_t kPiece = 1 << 12;       // what a vector loop looks at between two tests
constexpr int64_t kWorkerShare = 1 << 16;

// Run piece(begin, end) over [0, count) until one says false; all workers stop soon after.
template <class Piece>
void for_each_piece(int64_t count, Piece&& piece) {
  std::atomic<bool> go_on{true};
  const int64_t pieces = (count + kPiece - 1) / kPiece;
  run_tasks(workers_for(count, kWorkerShare), pieces, [&](int, int64_t p) {
    if (!go_on.load(std::memory_order_relaxed)) return;
    if (!piece(p * kPiece, std::min(count, (p + 1) * kPiece))) go_on.store(false, std::memory_order_relaxed);
  });
}

template <class Index>
bool non_decreasing(const Index* index, int64_t begin, int64_t end) {
  bool decreases = false;
  for (int64_t i = begin; i < end; ++i) decreases |= index[i] > index[i + 1];
  return !decreases;
}

template <class Index>
int64_t first_in_any_piece(const Index* index, int64_t count, int64_t lower, int64_t upper) {
  FirstPosition bad;
  // Every piece is looked at, so that the first position is found whatever the order of the workers.
  for_each_piece(count, [&](int64_t begin, int64_t end) {
    const int64_t first = first_outside(index, begin, end, lower, upper);
    if (first >= 0) bad.note(first);
    return true;
  });
  return bad.get();
}

}  // namespace

template <class Index>
bool is_sorted_index(const Index* index, int64_t count) {
  const int64_t steps = count - 1;
  if (steps <= 0) return true;
  if (!non_decreasing(index, 0, std::min<int64_t>(steps, 64))) return false;
  std::atomic<bool> sorted{true};
  for_each_piece(steps, [&](int64_t begin, int64_t end) {
    if (non_decreasing(index, begin, end)) return true;
    sorted.store(false, std::memory_order_relaxed);
    return false;
  });
  return sorted.load();
}

template <class Index>
int64_t first_bad_sorted(const Index* index, int64_t count, int64_t num_targets) {
  if (count == 0) return -1;
  if (index[0] < 0) return 0;
  const int64_t good = std::lower_bound(index, index + count, num_targets) - index;
  return good < count ? good : -1;
}

template bool is_sorted_index(const int32_t*, int64_t);
template bool is_sorted_index(const int64_t*, int64_t);
template int64_t first_bad_sorted(const int32_t*, int64_t, int64_t);
template int64_t first_bad_sorted(const int64_t*, int64_t, int64_t);

int64_t first_out_of_range(const void* index, bool index_is_int64, int64_t count, int64_t lower, int64_t upper) {
  if (index_is_int64) return first_in_any_piece(static_cast<const int64_t*>(index), count, lower, upper);
  return first_in_any_piece(static_cast<const int32_t*>(index), count, lower, upper);
}

}  // namespace reprocuda::cpu
