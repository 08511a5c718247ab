#include "overwrite.h"

#include <limits>

#include "../kernels/overwrite.cuh"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

template <class Element, class Slot>
void run(const Overwrite& problem, const Context& context) {
  int64_t num_slots = 0;
  const OverwriteKeys keys = make_keys(problem, num_slots);
  const int64_t most = int64_t{8} * context.num_sms;
  Slot* slots = nullptr;
  if (!problem.has_no_duplicates()) {
    slots = context.temporary<Slot>(num_slots);
    memset_async(slots, 0, static_cast<size_t>(num_slots) * sizeof(Slot), context.stream);
    const OverwriteKeys distinct = claiming(keys, problem);
    launch(overwrite_claim<Slot>, blocks_for(distinct.count, kOverwriteThreads, most), kOverwriteThreads, 0, context.stream,
           distinct, slots);
  }
  launch(overwrite_copy<Element, Slot>, blocks_for(keys.count, kOverwriteThreads, most), kOverwriteThreads, 0, context.stream,
         keys, slots, static_cast<const Element*>(problem.src), static_cast<Element*>(problem.out));
}

template <class Element>
void run(const Overwrite& problem, const Context& context) {
  if (problem.sizes[problem.dim] < std::numeric_limits<uint32_t>::max()) {
    run<Element, unsigned>(problem, context);
  } else {
    run<Element, unsigned long long>(problem, context);
  }
}

}  // namespace

void overwrite(const Overwrite& problem, const Context& context) {
  if (problem.num_elements == 0) return;
  switch (problem.element_bytes) {
    case 1: return run<uint8_t>(problem, context);
    case 2: return run<uint16_t>(problem, context);
    case 4: return run<uint32_t>(problem, context);
    case 8: return run<uint64_t>(problem, context);
    default: return run<Bytes16>(problem, context);
  }
}

}  // namespace reprocuda::cuda
