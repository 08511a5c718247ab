// Which algorithm solves which problem. All give the same bits, so this is a matter of speed alone.
#include "accumulate.h"

#include <atomic>
#include <stdexcept>

namespace reprocuda::cuda {
namespace {

std::atomic<Algorithm> forced_algorithm{Algorithm::kAuto};
std::atomic<FirstStage> first_stage{FirstStage::kFilter};

template <class Problem>
void choose_and_run(const Problem& problem, const Context& context) {
  // The first that expects to be fastest is taken. The sorted algorithm serves every sum, and whatever of floats is rounded.
  const Launcher<Problem> launchers[] = {small_launcher<Problem>(), bins_launcher<Problem>(), fixed_point_launcher<Problem>(),
                                         words_launcher<Problem>(), sorted_launcher<Problem>()};
  const Algorithm forced = forced_algorithm;
  for (const Launcher<Problem>& launcher : launchers) {
    const bool wanted = forced == Algorithm::kAuto ? launcher.prefers(problem) : forced == launcher.algorithm;
    if (wanted && launcher.serves(problem)) {
      launcher.accumulate(problem, context);
      return;
    }
  }
  throw std::runtime_error(forced == Algorithm::kAuto ? "reprocuda: this reduction does not exist on CUDA"
                                                      : "reprocuda: the forced algorithm cannot serve this problem on CUDA");
}

}  // namespace

void accumulate(const Accumulation& problem, const Context& context) { choose_and_run(problem, context); }
void accumulate(const ElementAccumulation& problem, const Context& context) { choose_and_run(problem, context); }

void set_forced_algorithm(Algorithm algorithm) { forced_algorithm = algorithm; }
void set_first_stage(FirstStage stage) { first_stage = stage; }
bool exact_is_forced() { return first_stage == FirstStage::kExact; }

}  // namespace reprocuda::cuda
