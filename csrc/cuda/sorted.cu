#include "sorted.h"

#include <algorithm>
#include <bit>

#include "../kernels/grouping.cuh"
#include "dispatch.h"
#include "grid.h"
#include "sort.h"

namespace reprocuda::cuda {
namespace {

// A grouping by target, in the words that the sort used.
template <class Word>
struct Grouping {
  const Word* sources;     // [num_rows]; nullptr: the rows are sorted
  const int64_t* offsets;  // [num_targets + 1]
};

unsigned grouping_blocks(int64_t count, const Context& context) {
  return blocks_for(count, kGroupingThreads, int64_t{32} * context.num_sms);
}

// make_pairs(keys, sources) queues the kernel that fills in `num_rows` pairs with keys of 0 .. num_targets.
template <class Word, class MakePairs>
Grouping<Word> group(int64_t num_rows, int64_t num_targets, int64_t* offsets, int64_t* permutation, const Context& context,
                     MakePairs&& make_pairs) {
  Pairs<Word> pairs{context.temporary<Word>(num_rows), context.temporary<Word>(num_rows)};
  if (num_rows > 0) {
    make_pairs(pairs.keys, pairs.values);
    const Pairs<Word> spare{context.temporary<Word>(num_rows), context.temporary<Word>(num_rows)};
    pairs = sort_pairs(pairs, spare, num_rows, std::bit_width(static_cast<uint64_t>(num_targets)), context);
  }
  if (offsets == nullptr) offsets = context.temporary<int64_t>(num_targets + 1);
  // One block for every kGroupingThreads offsets; more where a permutation is to be written too.
  const int64_t blocks = std::max<int64_t>(num_targets / kGroupingThreads + 1,
                                           permutation == nullptr ? 0 : grouping_blocks(num_rows, context));
  launch(grouping_offsets<Word>, static_cast<unsigned>(blocks), kGroupingThreads, 0, context.stream, pairs.keys, pairs.values,
         num_rows, num_targets, offsets, permutation);
  return {pairs.values, offsets};
}

template <class Word>
Grouping<Word> group_rows(const IndexArray& index, int64_t num_rows, int64_t num_targets, int64_t ignored_target,
                          int64_t* offsets, int64_t* permutation, const Context& context) {
  return group<Word>(num_rows, num_targets, offsets, permutation, context, [&](Word* keys, Word* sources) {
    launch(grouping_row_pairs<Word>, grouping_blocks(num_rows, context), kGroupingThreads, 0, context.stream,
           index, num_rows, num_targets, ignored_target, keys, sources);
  });
}

// 32-bit words hold every source and, with one value to spare, every target.
bool fits_32_bits(int64_t num_sources, int64_t num_targets) {
  constexpr int64_t kLimit = int64_t{1} << 32;
  return num_sources <= kLimit && num_targets < kLimit - 1;
}

// Calls f.operator()<Word>() for the narrowest Word that serves.
template <class F>
void with_word(int64_t num_sources, int64_t num_targets, F&& f) {
  if (fits_32_bits(num_sources, num_targets)) {
    f.template operator()<uint32_t>();
  } else {
    f.template operator()<uint64_t>();
  }
}

template <class Word>
void use(SegmentProblem& problem, const Grouping<Word>& grouping) {
  problem.permutation = grouping.sources;
  problem.permutation_bytes = sizeof(Word);
  problem.offsets = grouping.offsets;
}

int64_t last_source_offset(const ElementAccumulation& problem) {
  int64_t offset = 0;
  for (int d = 0; d < problem.ndim; ++d) offset += (problem.sizes[d] - 1) * problem.src_strides[d];
  return problem.complex_pairs ? 2 * offset + 1 : offset;
}

// What both problems have in common; `num_rows` rows of `inner` scalars, to be found among `num_sources`.
template <class Problem>
SegmentProblem segments_of(const Problem& problem, int64_t num_rows, int64_t num_sources, int64_t num_targets,
                           int64_t inner) {
  SegmentProblem segments{};
  segments.src = problem.src;
  segments.self = problem.start();
  segments.kept = problem.self;
  segments.own = problem.start() != nullptr ? 1 : 0;
  segments.out = problem.out;
  segments.num_rows = num_rows;
  segments.num_sources = num_sources;
  segments.num_targets = num_targets;
  segments.inner = inner;
  segments.ignored_target = -1;
  segments.mean = problem.mean();
  segments.weight = make_weight(Alpha{}, false);
  segments.row_bytes = narrow_row_bytes(num_sources, inner, problem.dtype);
  segments.force_exact = exact_is_forced();
  return segments;
}

void reduce_segments(const SegmentProblem& segments, int64_t outer, Dtype dtype, Reduction reduction, const Context& context) {
  if (reduction == Reduction::kProd) {
    multiply_segments(dtype, outer, segments, context);
  } else {
    reduce_segments(dtype, outer, segments, context);
  }
}

template <class Problem>
bool leaves_out_alone(int64_t num_contributions, int64_t num_outputs, const Problem& problem) {
  return num_outputs == 0 || (num_contributions == 0 && problem.self == problem.out);
}

void accumulate_sorted(const Accumulation& problem, const Context& context) {
  if (leaves_out_alone(problem.num_rows, problem.outer * problem.num_targets * problem.inner, problem)) return;
  SegmentProblem segments =
      segments_of(problem, problem.num_rows, problem.num_rows, problem.num_targets, problem.inner);
  segments.ignored_target = problem.ignored_target;
  segments.weight = make_weight(problem.alpha, problem.complex_pairs);
  if (problem.plan != nullptr) {
    use(segments, Grouping<int64_t>{problem.plan->permutation, problem.plan->offsets});
  } else {
    with_word(problem.num_rows, problem.num_targets, [&]<class Word>() {
      use(segments, group_rows<Word>({problem.index, problem.index_is_int64}, problem.num_rows, problem.num_targets,
                                     problem.ignored_target, nullptr, nullptr, context));
    });
  }
  reduce_segments(segments, problem.outer, problem.dtype, problem.reduction, context);
}

void accumulate_sorted(const ElementAccumulation& problem, const Context& context) {
  const ElementKeys keys = make_keys(problem);
  if (leaves_out_alone(keys.count, keys.num_outputs, problem)) return;
  const int64_t num_sources = keys.count == 0 ? 0 : std::max(keys.count, last_source_offset(problem) + 1);
  SegmentProblem segments = segments_of(problem, keys.count, num_sources, keys.num_outputs, 1);
  with_word(num_sources, keys.num_outputs, [&]<class Word>() {
    use(segments, group<Word>(keys.count, keys.num_outputs, nullptr, nullptr, context, [&](Word* words, Word* sources) {
      launch(grouping_element_pairs<Word>, grouping_blocks(keys.count, context), kGroupingThreads, 0,
             context.stream, keys, words, sources);
    }));
  });
  reduce_segments(segments, 1, problem.dtype, problem.reduction, context);
}

// Every reduction of floats but an extreme, every sum.
template <class Problem>
bool serves(const Problem& problem) {
  if (problem.reduction == Reduction::kSum) return true;
  return is_floating_point(problem.dtype) && !is_extreme(problem.reduction);
}

}  // namespace

void build_plan(const void* index, bool index_is_int64, int64_t num_rows, int64_t num_targets, int64_t* permutation,
                int64_t* offsets, const Context& context) {
  with_word(num_rows, num_targets, [&]<class Word>() {
    group_rows<Word>({index, index_is_int64}, num_rows, num_targets, -1, offsets, permutation, context);
  });
}

template <class Problem>
Launcher<Problem> sorted_launcher() {
  return {Algorithm::kRows, serves<Problem>, serves<Problem>, accumulate_sorted};
}

template Launcher<Accumulation> sorted_launcher();
template Launcher<ElementAccumulation> sorted_launcher();

}  // namespace reprocuda::cuda
