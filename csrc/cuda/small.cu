// Launches small problems: one kernel, no device memory.
#include "../kernels/small.cuh"

#include <algorithm>
#include <bit>

#include "accumulate.h"
#include "dispatch.h"
#include "no_sort.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kMostPreferred = int64_t{1} << 22;  // scalars moved; beyond, sorting once pays
constexpr int64_t kShareScalars = 2048;               // of src that one block should sum
constexpr int64_t kShareOutputs = 8192;               // that one block should copy

SmallRows make_rows(const Accumulation& problem) { return {make_keys(problem)}; }
SmallElements make_rows(const ElementAccumulation& problem) { return {make_keys(problem)}; }
int64_t count_rows(const Accumulation& problem) { return problem.num_rows; }
int64_t count_rows(const ElementAccumulation& problem) { return make_keys(problem).count; }

template <class T, class Rows>
void run(const Rows& rows, int64_t num_rows, const NoSortOptions& options, const Context& context) {
  SmallProblem<T, Rows> problem;
  problem.rows = rows;
  problem.src = static_cast<const T*>(options.src);
  problem.self = static_cast<const T*>(options.self);
  problem.kept = static_cast<const T*>(options.kept);
  problem.out = static_cast<T*>(options.out);
  problem.weight = make_weight(options.alpha, options.complex_pairs);
  problem.mean = options.mean;
  problem.is_signed = options.dtype != Dtype::kUInt8;
  problem.force_exact = exact_is_forced();
  problem.num_rows = static_cast<int>(num_rows);
  problem.num_targets = rows.num_targets();
  problem.num_columns = rows.num_columns();
  problem.lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(problem.num_columns, 32))));
  problem.unit_rows = std::max(32, 4 * problem.lanes);
  problem.tiles = static_cast<unsigned>(ceil_div(problem.num_columns, problem.lanes));
  const int64_t copied = options.kept == options.out ? 0 : problem.num_targets * problem.lanes;
  const int64_t wanted = std::max(ceil_div(num_rows * problem.lanes, kShareScalars), ceil_div(copied, kShareOutputs));
  const int64_t most = std::max<int64_t>(1, int64_t{2} * context.num_sms / problem.tiles);
  problem.shares = static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, std::min(most, problem.num_targets)));
  problem.key_capacity = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(num_rows, 16))));
  const int64_t shared = small_shared_bytes<T>(problem.num_rows, problem.key_capacity, problem.unit_rows, problem.lanes);
  launch(small_accumulate<T, Rows>, problem.tiles * problem.shares, kSmallThreads, static_cast<size_t>(shared),
         context.stream, problem);
}

template <class Problem>
bool serves(const Problem& problem) {
  const auto rows = make_rows(problem);
  const int64_t targets = rows.num_targets();
  if (has_plan(problem) || !is_sum_or_mean(problem.reduction)) return false;
  if (count_rows(problem) > kMostSmallRows || targets > kMostSmallTargets) return false;
  return targets == 0 || ceil_div(rows.num_columns(), 32) <= int64_t{1} << 20;
}

template <class Problem>
bool prefers(const Problem& problem) {
  if (!serves(problem)) return false;
  const auto rows = make_rows(problem);
  const int64_t read = rows.num_targets() == 0 ? 0 : count_rows(problem) * rows.num_columns();
  const int64_t copied = problem.self == problem.out ? 0 : rows.keys.num_outputs;
  return read <= kMostPreferred && copied <= kMostPreferred;
}

template <class Problem>
void accumulate_small(const Problem& problem, const Context& context) {
  const auto rows = make_rows(problem);
  if (rows.keys.num_outputs == 0) return;
  dispatch(problem.dtype, [&]<class T>() { run<T>(rows, count_rows(problem), no_sort_options(problem), context); });
}

}  // namespace

template <class Problem>
Launcher<Problem> small_launcher() {
  return {Algorithm::kSmall, serves<Problem>, prefers<Problem>, accumulate_small<Problem>};
}

template Launcher<Accumulation> small_launcher();
template Launcher<ElementAccumulation> small_launcher();

}  // namespace reprocuda::cuda
