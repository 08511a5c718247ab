#include "fingerprint.h"

#include "../kernels/fingerprint.cuh"
#include "grid.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kBlocksAlone = 16;  // two a warp: up to 32 KiB, a second kernel costs more than it saves

template <class Words>
void run(const FingerprintProblem& problem, int64_t* digest, const Context& context) {
  const int64_t blocks = problem.num_blocks();
  const unsigned grid =
      blocks <= kBlocksAlone ? 1 : blocks_for(blocks, kFingerprintWarps, int64_t{2} * context.num_sms);
  Fingerprint* partials = grid == 1 ? nullptr : context.temporary<Fingerprint>(grid);
  launch(fingerprint_blocks<Words>, grid, kFingerprintThreads, 0, context.stream, problem, blocks, partials,
         digest);
  if (grid > 1) {
    launch(fingerprint_finish, 1, kFingerprintThreads, 0, context.stream, partials, static_cast<int>(grid), problem.header,
           digest);
  }
}

}  // namespace

void fingerprint(const FingerprintProblem& problem, int64_t* digest, const Context& context) {
  const bool aligned = reinterpret_cast<uintptr_t>(problem.data) % 16 == 0;
  if (problem.is_contiguous() && aligned) return run<PackedWords>(problem, digest, context);
  FingerprintProblem strided = problem;
  if (strided.ndim == 0) {
    strided.ndim = 1;
    strided.sizes[0] = strided.num_elements;
    strided.strides[0] = 1;
  }
  switch (problem.element_bytes) {
    case 1: return run<StridedWords<1>>(strided, digest, context);
    case 2: return run<StridedWords<2>>(strided, digest, context);
    case 4: return run<StridedWords<4>>(strided, digest, context);
    case 8: return run<StridedWords<8>>(strided, digest, context);
    default: return run<StridedWords<16>>(strided, digest, context);
  }
}

}  // namespace reprocuda::cuda
