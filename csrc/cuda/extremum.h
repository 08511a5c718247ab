// An extremum with its position, on the device.
#pragma once

#include "../problems/extremum.h"
#include "context.h"

namespace reprocuda::cuda {

enum class ExtremumPasses {
  kByWidth,  // one wherever 64 bits hold number and position
  kTwo,      // always two, for tests
};

// Queues the kernels, five graph nodes at most. Throws std::runtime_error when temporary memory is refused or a launch fails.
void extremum(const Extremum& problem, const Context& context, ExtremumPasses passes = ExtremumPasses::kByWidth);

}  // namespace reprocuda::cuda
