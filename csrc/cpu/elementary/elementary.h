// exp and log on the CPU.
#pragma once

#include "../../elementary.h"

namespace reprocuda::cpu {

void map(const ElementaryMap& problem);

}  // namespace reprocuda::cpu
