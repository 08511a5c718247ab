// How accumulation by integer atomics is launched, for either problem: three kernels for floats, a clearing and two kernels for
// integers. Each problem is compiled in a file of its own, so that they compile side by side.
#pragma once

#include <algorithm>
#include <cmath>

#include "../kernels/fixed_point.cuh"
#include "../kernels/fixed_point_integers.cuh"
#include "accumulate.h"
#include "dispatch.h"
#include "no_sort.h"

namespace reprocuda::cuda {
namespace fixed_point {

inline constexpr int64_t kPoolLimbs = (int64_t{16} << 20) / sizeof(unsigned long long);

template <class T>
int64_t most_digits(int head_bits) {
  return place_digits<T>(1, FloatFormat<T>::kInfinity - 1, head_bits).digits;
}

template <class T, class Keys>
void run_floats(const Keys& keys, const NoSortOptions& options, const Context& context) {
  FixedPointState state;
  state.most = options.most;
  state.head_bits = head_bits(options.most);
  state.num_targets = options.num_targets;
  state.pool_limbs = std::min(kPoolLimbs, keys.num_outputs * most_digits<T>(state.head_bits));
  const int64_t sms = context.num_sms;
  const unsigned prepare_blocks = blocks_for(std::max(keys.count, keys.num_outputs), 4 * kFixedPointThreads,
                                             std::min<int64_t>(kMostExtremes, 4 * sms));
  state.num_extremes = static_cast<int>(prepare_blocks);

  Layout layout;
  layout.add(&state.sums, keys.num_outputs);
  layout.add(&state.extremes, prepare_blocks);
  layout.add(&state.phases, 1);
  layout.add(&state.pending, 1);
  layout.add(&state.pool, state.pool_limbs);
  if (options.counts()) layout.add(&state.counts, options.num_targets);
  layout.allocate(context);

  const OutputRule<T> rule = output_rule<T>(options, state.counts);
  state.cell = rule.pairs ? 2 : 1;
  // An infinite or NaN alpha asks for the classes of all contributions, which only the exact collection records.
  state.force_exact = exact_is_forced() || !std::isfinite(rule.real) || !std::isfinite(rule.imag);

  const T* src = static_cast<const T*>(options.src);
  launch(fixed_point_prepare<T, Keys>, prepare_blocks, kFixedPointThreads, 0, context.stream, keys, src, state);
  if (keys.count > 0) {
    launch(fixed_point_accumulate<T, Keys>, blocks_for(keys.count, kUnroll * kFixedPointThreads, 8 * sms),
           kFixedPointThreads, 0, context.stream, keys, src, state);
  }
  const int64_t tiles = std::max(ceil_div(keys.num_outputs, kOutputTile), ceil_div(keys.count, kSourceTile));
  launch(fixed_point_finish<T, Keys>, blocks_for(tiles, 1, 4 * sms), kFixedPointThreads, 0, context.stream, keys, src,
         static_cast<T*>(options.out), rule, state);
}

template <class T, class Keys>
void run_integers(const Keys& keys, const NoSortOptions& options, const Context& context) {
  using Word = IntegerWord<T>;
  const int64_t words = keys.num_outputs;
  const int64_t counts = options.num_counts();
  // One piece of memory, so that one clearing does.
  const int64_t counts_first = ceil_div(counts * static_cast<int64_t>(sizeof(unsigned long long)), sizeof(Word));
  Word* memory = context.temporary<Word>(counts_first + words);
  memset_async(memory, 0, static_cast<size_t>(counts_first + words) * sizeof(Word), context.stream);
  Word* sums = memory + counts_first;
  IntegerRule rule;
  rule.is_signed = options.dtype != Dtype::kUInt8;
  rule.alpha = options.alpha.is_one ? 1 : static_cast<uint64_t>(options.alpha.integer);
  rule.divides = options.mean;
  unsigned long long* count_words = options.counts() ? reinterpret_cast<unsigned long long*>(memory) : nullptr;
  rule.counts = count_words;
  const int64_t most_blocks = 8 * static_cast<int64_t>(context.num_sms);
  if (keys.count > 0) {
    launch(integer_accumulate<T, Keys>, blocks_for(keys.count, kIntegerThreads, most_blocks), kIntegerThreads, 0,
           context.stream, keys, static_cast<const T*>(options.src), sums, count_words);
  }
  launch(integer_finish<T, Keys>, blocks_for(words, kIntegerThreads, most_blocks), kIntegerThreads, 0, context.stream, keys,
         sums, static_cast<const T*>(options.self), static_cast<const T*>(options.kept), static_cast<T*>(options.out), rule);
}

template <class Problem>
void run(const Problem& problem, const Context& context) {
  const auto keys = make_keys(problem);
  if (keys.num_outputs == 0) return;
  const NoSortOptions options = no_sort_options(problem);
  dispatch(problem.dtype, [&]<class T>() {
    if constexpr (kIsFloat<T>) {
      run_floats<T>(keys, options, context);
    } else {
      run_integers<T>(keys, options, context);
    }
  });
}

// Which problems are worth it.
bool pays(Dtype dtype, int64_t count, int64_t num_outputs);
bool has_rows_worth_sorting(const Accumulation& problem);
inline bool has_rows_worth_sorting(const ElementAccumulation&) { return false; }

template <class Problem>
bool serves(const Problem& problem) {
  return !has_plan(problem) && is_sum_or_mean(problem.reduction);
}

template <class Problem>
bool prefers(const Problem& problem) {
  const auto keys = make_keys(problem);
  if (serves(problem) && problem.mean() && !is_floating_point(problem.dtype)) return true;  // nobody else does
  return serves(problem) && !has_rows_worth_sorting(problem) && pays(problem.dtype, keys.count, keys.num_outputs);
}

}  // namespace fixed_point

template <class Problem>
Launcher<Problem> fixed_point_launcher() {
  return {Algorithm::kFixedPoint, fixed_point::serves<Problem>, fixed_point::prefers<Problem>, fixed_point::run<Problem>};
}

}  // namespace reprocuda::cuda
