// The CPU backend under the operators: registers every family for the CPU key and lends torch's thread pool to csrc/cpu.
#include "../ops/elementary.h"
#include "../ops/embedding.h"
#include "../ops/embedding_bag.h"
#include "../ops/extremum.h"
#include "../ops/fingerprint.h"
#include "../ops/forcing.h"
#include "../ops/histogram.h"
#include "../ops/index_put.h"
#include "../ops/overwrite.h"
#include "../ops/reduce.h"
#include "../ops/running.h"
#include "../ops/scan.h"
#include "../ops/scatter_add.h"
#include "../ops/segment.h"
#include "../ops/text.h"
#include "bags/bags.h"
#include "elementary/elementary.h"
#include "extrema/extremum.h"
#include "fingerprint/fingerprint.h"
#include "histogram.h"
#include "index_checks.h"
#include "overwrite.h"
#include "parallel.h"
#include "scans/running.h"
#include "scans/scan.h"
#include "sums/accumulate.h"
#include "sums/linearize.h"
#include "sums/plan.h"

namespace reprocuda {
namespace cpu {
namespace {

thread_local bool inside_parallel_region = false;

struct Range {
  RangeFunction function;
  void* context;
};

void run_range(int64_t begin, int64_t end, void* range) {
  const bool outer = inside_parallel_region;
  inside_parallel_region = true;
  static_cast<Range*>(range)->function(begin, end, static_cast<Range*>(range)->context);
  inside_parallel_region = outer;
}

}  // namespace

void run_parallel(int64_t begin, int64_t end, int64_t grain, RangeFunction function, void* context) {
  if (begin >= end) {
    return;
  }
  if (inside_parallel_region || end - begin <= grain) {
    function(begin, end, context);
    return;
  }
  Range range{function, context};
  TORCH_ERROR_CODE_CHECK(torch_parallel_for(begin, end, grain, run_range, &range));
}

int num_threads() {
  return inside_parallel_region ? 1 : static_cast<int>(torch::stable::get_num_threads());
}

}  // namespace cpu

namespace {

struct CpuBackend {
  static int64_t accumulate(const Accumulation& problem, const Tensor&) { return cpu::accumulate(problem); }
  static int64_t accumulate(const ElementAccumulation& problem, const Tensor&) { return cpu::accumulate(problem); }
  static int64_t linearize(const IndexLinearization& problem, const Tensor&) { return cpu::linearize(problem); }

  static bool overwrite(const Overwrite& problem, const Tensor&) { return cpu::overwrite(problem); }

  static int64_t extremum(const Extremum& problem, const Tensor&) { return cpu::extremum(problem); }

  static int64_t first_out_of_range(const Tensor& index, int64_t lower, int64_t upper) {
    return cpu::first_out_of_range(index.const_data_ptr(), index.scalar_type() == ScalarType::Long, index.numel(), lower,
                                   upper);
  }

  static int64_t build_plan(const Tensor& index, int64_t num_targets, int64_t* permutation, int64_t* offsets) {
    return cpu::build_plan(index.const_data_ptr(), index.scalar_type() == ScalarType::Long, index.numel(), num_targets,
                           permutation, offsets);
  }

  static void fingerprint(const FingerprintProblem& problem, int64_t* digest, const Tensor&) {
    const Fingerprint result = cpu::fingerprint(problem);
    digest[0] = static_cast<int64_t>(result.lane[0]);
    digest[1] = static_cast<int64_t>(result.lane[1]);
  }

  static int64_t bag_sum(const BagSum& problem, const Tensor&) { return cpu::bag_sum(problem); }
  static void bag_maximum(const BagMaximum& problem, const Tensor&) { cpu::bag_maximum(problem); }
  static void row_products(const RowProducts& problem, const Tensor&) { cpu::row_products(problem); }

  static void histogram(const Histogram& problem, const Tensor& out, bool counts) {
    int64_t* const result = static_cast<int64_t*>(out.mutable_data_ptr());
    counts ? cpu::histogram_counts(problem, result) : cpu::histogram_keys(problem, result);
  }

  static void scan(Dtype dtype, const Tensor& in, const Tensor& out, int64_t outer, int64_t length, int64_t inner) {
    cpu::scan({dtype, out.mutable_data_ptr(), in.const_data_ptr(), outer, length, inner});
  }

  static void running(const RunningScan& problem, const Tensor&) { cpu::running(problem); }

  static void map(const ElementaryMap& problem, const Tensor&) { cpu::map(problem); }

  // A plan can come from anywhere; a wrong one must not become a wild read.
  static void check_plan(const Tensor* permutation, const Tensor& offsets, int64_t num_rows, const char* op) {
    const int64_t* offset = static_cast<const int64_t*>(offsets.const_data_ptr());
    const int64_t last = offsets.numel() - 1;
    check<std::runtime_error>(offset[0] == 0 && offset[last] == num_rows, op, "(): offsets must run from 0 to ", num_rows,
                              ", the number of rows, got ", offset[0], " to ", offset[last]);
    for (int64_t s = 0; s < last; ++s) {
      check<std::runtime_error>(offset[s] <= offset[s + 1], op, "(): offsets must not decrease, but offsets[", s, "] is ",
                                offset[s], " and offsets[", s + 1, "] is ", offset[s + 1]);
    }
    if (permutation != nullptr) {
      const int64_t bad = cpu::first_out_of_range(permutation->const_data_ptr(), true, num_rows, 0, num_rows);
      check<std::runtime_error>(bad < 0, op, "(): permutation[", bad, "] does not name one of ", num_rows, " rows");
    }
  }
};

void set_forced_algorithm(StringHandle name) { cpu::set_forced_algorithm(algorithm_named(take_string(name))); }

// 0: by the filter; 1: without it; 2: by the superaccumulators alone.
void set_first_stage(int64_t stage) {
  check<std::runtime_error>(stage >= 0 && stage <= 2, "_set_first_stage(): stage must be 0, 1 or 2, not ", stage);
  cpu::set_first_stage(static_cast<cpu::FirstStage>(stage));
}

STABLE_TORCH_LIBRARY_IMPL(reprocuda, CPU, library) {
  register_index_add<CpuBackend>(library);
  register_scatter_add<CpuBackend>(library);
  register_reduce<CpuBackend>(library);
  register_index_put<CpuBackend>(library);
  register_overwrite<CpuBackend>(library);
  register_extremum<CpuBackend>(library);
  register_embedding<CpuBackend>(library);
  register_segment<CpuBackend>(library);
  register_embedding_bag<CpuBackend>(library);
  register_histogram<CpuBackend>(library);
  register_scan<CpuBackend>(library);
  register_running<CpuBackend>(library);
  register_elementary<CpuBackend>(library);
  register_fingerprint<CpuBackend>(library);
}

STABLE_TORCH_LIBRARY_IMPL(reprocuda, CompositeExplicitAutograd, library) {
  library.impl("_set_forced_algorithm", TORCH_BOX(&set_forced_algorithm));
  library.impl("_set_first_stage", TORCH_BOX(&set_first_stage));
}

}  // namespace
}  // namespace reprocuda
