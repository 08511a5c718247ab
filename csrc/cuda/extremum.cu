#include "extremum.h"

#include "../kernels/extremum.cuh"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

template <class Order>
class Solver {
  using Bits = typename Order::Bits;
  using Words = ExtremeWords<Order>;
  using Word = typename Words::Word;

 public:
  Solver(const Extremum& problem, const Context& context)
      : p_(problem), keys_(make_keys(problem)), context_(context), src_(static_cast<const Bits*>(problem.src)) {}

  void run(ExtremumPasses passes) const {
    if (keys_.num_outputs == 0) return;
    clear(p_.arg, sizeof(int64_t));
    if constexpr (sizeof(Bits) <= 4) {
      if (passes == ExtremumPasses::kByWidth && p_.num_rows < PackedExtremes<Order>::kMaxRows) return in_one();
    }
    in_two();
  }

 private:
  void in_one() const {
    for_contributions(extremum_claim<Order>, keys_, p_.largest, src_, places());
    finish(PackedExtremes<Order>{p_.arg});
  }

  void in_two() const {
    // The numbers' own memory holds the words where it is as wide.
    Word* const words = sizeof(Word) == sizeof(Bits) ? static_cast<Word*>(p_.out) : context_.temporary<Word>(keys_.num_outputs);
    clear(words, sizeof(Word));
    const Words how{p_.largest};
    for_contributions(integer_atomics_accumulate<Words, ExtremumKeys>, keys_, how, src_, words, nullptr);
    for_contributions(extremum_positions<Words>, keys_, how, src_, words, places());
    finish(SplitExtremes<Order>{words, p_.arg, p_.num_rows});
  }

  unsigned long long* places() const { return reinterpret_cast<unsigned long long*>(p_.arg); }

  void clear(void* memory, size_t bytes_each) const {
    memset_async(memory, 0, static_cast<size_t>(keys_.num_outputs) * bytes_each, context_.stream);
  }

  unsigned blocks(int64_t items) const { return blocks_for(items, kExtremumThreads, int64_t{8} * context_.num_sms); }

  template <class Kernel, class... Arguments>
  void for_contributions(Kernel* kernel, const Arguments&... arguments) const {
    if (keys_.count > 0) launch(kernel, blocks(keys_.count), kExtremumThreads, 0, context_.stream, arguments...);
  }

  template <class Cells>
  void finish(const Cells& cells) const {
    launch(extremum_finish<Order, Cells>, blocks(keys_.num_outputs), kExtremumThreads, 0, context_.stream, cells, p_.largest,
           keys_.num_outputs, p_.num_rows, static_cast<const Bits*>(p_.self), static_cast<Bits*>(p_.out), p_.arg);
  }

  const Extremum& p_;
  const ExtremumKeys keys_;
  const Context& context_;
  const Bits* const src_;
};

}  // namespace

void extremum(const Extremum& problem, const Context& context, ExtremumPasses passes) {
  with_order(problem.dtype, [&](auto order) { Solver<decltype(order)>(problem, context).run(passes); });
}

}  // namespace reprocuda::cuda
