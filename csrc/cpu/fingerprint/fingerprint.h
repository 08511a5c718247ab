// The fingerprint of a tensor's bits, on the CPU.
#pragma once

#include "../../problems/fingerprint.h"

namespace reprocuda::cpu {

Fingerprint fingerprint(const FingerprintProblem& problem);

}  // namespace reprocuda::cpu
