// Rows by integer atomics; and which problems are worth it.
#include "fixed_point.h"

namespace reprocuda::cuda {
namespace {

constexpr int64_t kNarrowRows = 4;  // scalars a row up to which a sort does not pay
constexpr int64_t kOutputsPerContribution = 4;
constexpr int64_t kFewOutputs = int64_t{1} << 16;
// At n = 10^6 two limbs hold 35 bits more than one double. Data that spread further cost a pass through the pool: of
// log-normal data (sigma 4) a tenth of the outputs with 1 contribution each, 0.01 % with 10, three digits an output
// (simulated). Beyond this many outputs the worst spreads would need too many rounds.
constexpr int64_t kMostOutputsFp64 = int64_t{1} << 22;

}  // namespace

namespace fixed_point {

// Every output costs some 16 bytes of clearing and rounding, whether or not anything arrives there.
bool pays(Dtype dtype, int64_t count, int64_t num_outputs) {
  if (dtype == Dtype::kFloat64 && num_outputs > kMostOutputsFp64) return false;
  return num_outputs <= kOutputsPerContribution * count + kFewOutputs;
}

// A sort is paid once a row: rows of several scalars make up for it, except where the rival is an integer atomic.
bool has_rows_worth_sorting(const Accumulation& problem) {
  return is_floating_point(problem.dtype) && problem.inner > kNarrowRows;
}

}  // namespace fixed_point

template Launcher<Accumulation> fixed_point_launcher();

}  // namespace reprocuda::cuda
