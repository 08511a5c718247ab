// Launches what one integer atomic a contribution does: a clearing and two kernels.
#include "../kernels/integer_atomics.cuh"

#include "accumulate.h"
#include "dispatch.h"
#include "no_sort.h"

namespace reprocuda::cuda {
namespace {

template <class Words, class Keys>
void run(const Words& how, const Keys& keys, const NoSortOptions& options, const Context& context) {
  using Element = typename Words::Element;
  using Word = typename Words::Word;
  // Joined to self, a word of 0 gives self, with contributions and without.
  const bool marks = Words::kMayLeaveZero && options.self == nullptr;
  // One piece of memory, so that one clearing does.
  const int64_t mark_bytes = marks ? ceil_div(keys.num_outputs, 32) * static_cast<int64_t>(sizeof(unsigned)) : 0;
  const int64_t bytes = keys.num_outputs * static_cast<int64_t>(sizeof(Word)) + mark_bytes;
  char* memory = context.temporary<char>(bytes);
  memset_async(memory, 0, static_cast<size_t>(bytes), context.stream);
  Word* words = reinterpret_cast<Word*>(memory);
  unsigned* touched = marks ? reinterpret_cast<unsigned*>(words + keys.num_outputs) : nullptr;
  const int64_t most = int64_t{8} * context.num_sms;
  if (keys.count > 0) {
    launch(integer_atomics_accumulate<Words, Keys>, blocks_for(keys.count, kIntegerThreads, most), kIntegerThreads, 0,
           context.stream, keys, how, static_cast<const Element*>(options.src), words, touched);
  }
  launch(integer_atomics_finish<Words>, blocks_for(keys.num_outputs, kIntegerThreads, most), kIntegerThreads, 0,
         context.stream, how, keys.num_outputs, words, touched, static_cast<const Element*>(options.self),
         static_cast<const Element*>(options.kept), static_cast<Element*>(options.out));
}

template <class Problem>
void accumulate_words(const Problem& problem, const Context& context) {
  const auto keys = make_keys(problem);
  if (keys.num_outputs == 0) return;
  const NoSortOptions options = no_sort_options(problem);
  const bool largest = problem.reduction == Reduction::kAmax;
  if (problem.dtype == Dtype::kBool) {
    run(ExtremeWords<BoolOrder>{largest}, keys, options, context);  // a product of bools is their smallest
  } else if (is_extreme(problem.reduction)) {
    with_order(problem.dtype, [&](auto order) { run(ExtremeWords<decltype(order)>{largest}, keys, options, context); });
  } else {
    dispatch_integer(problem.dtype, [&]<class T>() {
      if constexpr (!std::is_same_v<T, Boolean>) run(ProductWords<T>{}, keys, options, context);
    });
  }
}

template <class Problem>
bool serves(const Problem& problem) {
  const bool is_integer_product = problem.reduction == Reduction::kProd && !is_floating_point(problem.dtype);
  return !has_plan(problem) && (is_extreme(problem.reduction) || is_integer_product);
}

}  // namespace

template <class Problem>
Launcher<Problem> words_launcher() {
  return {Algorithm::kFixedPoint, serves<Problem>, serves<Problem>, accumulate_words<Problem>};
}

template Launcher<Accumulation> words_launcher();
template Launcher<ElementAccumulation> words_launcher();

}  // namespace reprocuda::cuda
