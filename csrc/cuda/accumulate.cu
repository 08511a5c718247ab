// Which algorithm solves which problem. All give the same bits, so this is a matter of speed alone.
#include "accumulate.h"

#include <atomic>
#include <stdexcept>

namespace reprocuda::cuda {
namespace {

std::atomic<Algorithm> forced_algorithm{Algorithm::kAuto};
std::atomic<bool> force_exact{false};

// One algorithm as the chooser sees it.
template <class Problem>
struct Choice {
  Algorithm name;
  bool (*serves)(const Problem&, const Context&);
  bool (*prefers)(const Problem&, const Context&);
  void (*accumulate)(const Problem&, const Context&);
};

template <class Problem>
bool always(const Problem&, const Context&) {
  return true;
}

template <class Problem>
void choose_and_run(const Problem& problem, const Context& context) {
  // The first that expects to be fastest is taken; the sorted algorithm serves everything.
  const Choice<Problem> choices[] = {
      {Algorithm::kSmall, small::serves, small::prefers, small::accumulate},
      {Algorithm::kBins, bins::serves, bins::prefers, bins::accumulate},
      {Algorithm::kFixedPoint, fixed_point::serves, fixed_point::prefers, fixed_point::accumulate},
      {Algorithm::kRows, always<Problem>, always<Problem>, sorted::accumulate},
  };
  const Algorithm forced = forced_algorithm;
  for (const Choice<Problem>& choice : choices) {
    const bool wanted = forced == Algorithm::kAuto ? choice.prefers(problem, context) : forced == choice.name;
    if (wanted && choice.serves(problem, context)) {
      choice.accumulate(problem, context);
      return;
    }
  }
  throw std::runtime_error("reprocuda: the forced algorithm cannot serve this problem on CUDA");
}

}  // namespace

void accumulate(const Accumulation& problem, const Context& context) { choose_and_run(problem, context); }
void accumulate(const ElementAccumulation& problem, const Context& context) { choose_and_run(problem, context); }

void set_forced_algorithm(Algorithm algorithm) { forced_algorithm = algorithm; }
void set_force_exact(bool force) { force_exact = force; }
bool exact_is_forced() { return force_exact; }

}  // namespace reprocuda::cuda
