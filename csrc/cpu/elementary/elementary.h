// exp and log on the CPU.
#pragma once

#include "../../problems/elementary.h"

namespace reprocuda::cpu {

void map(const ElementaryMap& problem);

}  // namespace reprocuda::cpu
