#include "element_keys.h"

#include "../parallel.h"

namespace reprocuda::cpu {

ElementKeys::ElementKeys(const ElementAccumulation& problem) : problem_(problem) {
  index_scale_ = problem.ndim == 0 ? 1 : problem.out_strides[problem.dim];
  for (int d = 0; d < problem.ndim; ++d) {
    const Dim next{problem.sizes[d], problem.src_strides[d], problem.index_strides[d],
                   d == problem.dim ? 0 : problem.out_strides[d]};
    if (next.size == 1) continue;
    Dim* const last = ndim_ > 0 ? &dims_[ndim_ - 1] : nullptr;
    const bool continues = last != nullptr && last->src == next.size * next.src && last->index == next.size * next.index &&
                           last->key == next.size * next.key;
    if (continues) {
      *last = {last->size * next.size, next.src, next.index, next.key};
    } else {
      dims_[ndim_++] = next;
    }
  }
  if (ndim_ == 0) dims_[ndim_++] = {1, 1, 1, 0};
}

int64_t ElementKeys::first_out_of_range() const {
  constexpr int64_t kPiece = 1 << 14;
  const uint64_t bound = static_cast<uint64_t>(problem_.dim_size);
  FirstPosition bad;
  with_index([&](auto* index) {
    const int64_t step = index_stride();
    const auto outside = [&](const Run& run, int64_t i) {
      return static_cast<uint64_t>(static_cast<int64_t>(index[run.index + i * step])) >= bound;
    };
    const int64_t pieces = (problem_.num_elements + kPiece - 1) / kPiece;
    run_tasks(workers_for(problem_.num_elements, 4 * kPiece), pieces, [&](int, int64_t piece) {
      for_each_run(piece * kPiece, std::min(problem_.num_elements, (piece + 1) * kPiece), [&](const Run& run) {
        bool any = false;
        for (int64_t i = 0; i < run.length; ++i) any |= outside(run, i);
        for (int64_t i = 0; any && i < run.length; ++i) {
          if (outside(run, i)) return bad.note(run.element + i);
        }
      });
    });
  });
  return bad.get();
}

}  // namespace reprocuda::cpu
