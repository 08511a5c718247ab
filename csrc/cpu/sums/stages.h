// The stages of a sum, cheapest first; each hands on what it cannot prove.
#pragma once

#include <cstdint>

namespace reprocuda::cpu {

// Where every output enters. Tests leave out the stages before.
enum class FirstStage : int8_t {
  kFilter,  // interval or compensated sums in the way of the contributions
  kPairs,   // 16- and 32-bit floats: exact sums as pairs of doubles (numerics/pair_sum.h)
  kWide,    // superaccumulators
};

}  // namespace reprocuda::cpu
