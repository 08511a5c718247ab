// Running products and log-sum-exps on the CPU.
#pragma once

#include "../../problems/running.h"

namespace reprocuda::cpu {

void running(const RunningScan& problem);

}  // namespace reprocuda::cpu
