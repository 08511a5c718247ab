// Test hooks: every backend can be told which algorithm to use, process-wide. All give the same bits.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "check.h"
#include "../problems/accumulation.h"

namespace reprocuda {

inline Algorithm algorithm_named(const std::string& name) {
  constexpr std::pair<std::string_view, Algorithm> names[] = {
      {"auto", Algorithm::kAuto},           {"rows", Algorithm::kRows},
      {"bins", Algorithm::kBins},           {"partition", Algorithm::kPartition},
      {"fixed_point", Algorithm::kFixedPoint}, {"small", Algorithm::kSmall},
  };
  for (const auto& [known, algorithm] : names) {
    if (known == name) {
      return algorithm;
    }
  }
  raise<std::runtime_error>("no algorithm is called '", name, "'");
}

}  // namespace reprocuda
