// Launches accumulation into private bins: a clearing and two kernels.
#include "../kernels/bins.cuh"

#include <algorithm>

#include "accumulate.h"
#include "dispatch.h"
#include "no_sort.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kUsualShared = 48 * 1024;  // several blocks a multiprocessor
constexpr int64_t kMostShared = 96 * 1024;   // what every device grants
constexpr int64_t kLeastTile = 1024;

template <class T>
int choose_copies(int64_t num_outputs, int64_t num_counts) {
  int copies = 1;
  while (copies < 32 && bin_shared_bytes<T>(num_outputs, num_counts, 2 * copies) <= kUsualShared) copies *= 2;
  return copies;
}

template <class Problem>
bool serves(const Problem& problem) {
  if (has_plan(problem) || !is_sum_or_mean(problem.reduction) || !is_floating_point(problem.dtype)) return false;
  const NoSortOptions options = no_sort_options(problem);
  const int64_t outputs = make_keys(problem).num_outputs;
  return dispatch_float(problem.dtype, [&]<class T>() {
    return outputs <= kMostShared && bin_shared_bytes<T>(outputs, options.num_counts(), 1) <= kMostShared;
  });
}

template <class T, class Keys>
void run(const Keys& keys, const NoSortOptions& options, const Context& context) {
  const int64_t limbs = keys.num_outputs * BinFormat<T>::kLimbs;
  const int64_t counts = options.num_counts();
  BinState state;
  state.num_targets = counts;
  state.copies = choose_copies<T>(keys.num_outputs, counts);
  // Enough contributions to pay for the flush, few enough for every multiprocessor to have some.
  const int64_t even = ceil_div(keys.count, int64_t{2} * context.num_sms);
  state.tile = std::clamp(std::max(even, 8 * keys.num_outputs), kLeastTile, kMostBinTile);

  // One piece of memory, so that one clearing does: limbs, counts, classes.
  const int64_t words = limbs + counts + ceil_div(keys.num_outputs, 2);
  state.limbs = context.temporary<unsigned long long>(words);
  state.counts = options.counts() ? state.limbs + limbs : nullptr;
  state.classes = reinterpret_cast<uint32_t*>(state.limbs + limbs + counts);
  memset_async(state.limbs, 0, static_cast<size_t>(words) * sizeof(unsigned long long), context.stream);
  if (keys.count > 0) {
    launch(bins_accumulate<T, Keys>, blocks_for(keys.count, state.tile, int64_t{4} * context.num_sms), kBinThreads,
           static_cast<size_t>(bin_shared_bytes<T>(keys.num_outputs, counts, state.copies)), context.stream, keys,
           static_cast<const T*>(options.src), state);
  }
  const OutputRule<T> rule = output_rule<T>(options, state.counts);
  const int64_t cells = keys.num_outputs / (rule.pairs ? 2 : 1);
  launch(bins_finish<T, Keys>, blocks_for(cells, kBinFinishWarps, cells), kBinFinishWarps * 32, 0, context.stream, keys,
         static_cast<T*>(options.out), rule, state);
}

template <class Problem>
void accumulate_in_bins(const Problem& problem, const Context& context) {
  const auto keys = make_keys(problem);
  if (keys.num_outputs == 0) return;
  dispatch_float(problem.dtype, [&]<class T>() { run<T>(keys, no_sort_options(problem), context); });
}

// Each output must receive enough to pay for clearing, flushing and rounding its limbs.
template <class Problem>
bool prefers(const Problem& problem) {
  const auto keys = make_keys(problem);
  return serves(problem) && keys.count >= int64_t{1} << 14 && keys.count >= 64 * keys.num_outputs;
}

}  // namespace

template <class Problem>
Launcher<Problem> bins_launcher() {
  return {Algorithm::kBins, serves<Problem>, prefers<Problem>, accumulate_in_bins<Problem>};
}

template Launcher<Accumulation> bins_launcher();
template Launcher<ElementAccumulation> bins_launcher();

}  // namespace reprocuda::cuda
