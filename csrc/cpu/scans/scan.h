// Prefix sums along one dimension.
#pragma once

#include "../../problems/scan.h"

namespace reprocuda::cpu {

void scan(const Scan& problem);

}  // namespace reprocuda::cpu
