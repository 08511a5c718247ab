// Argument checks that raise what Python code expects.
//
// torch's own STD_TORCH_CHECK prints build paths and always raises RuntimeError. Across the library boundary a
// std::out_of_range becomes IndexError, std::invalid_argument ValueError, anything else RuntimeError.
#pragma once

#include <sstream>
#include <stdexcept>

namespace reprocuda {

template <class Error, class... Parts>
[[noreturn]] void raise(const Parts&... parts) {
  std::ostringstream message;
  (message << ... << parts);
  throw Error(message.str());
}

template <class Error, class... Parts>
void check(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]] {
    raise<Error>(parts...);
  }
}

// The arguments are not ones that this library serves: nothing has been written, and torch's own operator, which the caller
// still has at hand, decides whether they are an error and which. Arrives in Python as ValueError, a class that none of the
// replaced operators raises.
using Irregular = std::invalid_argument;

}  // namespace reprocuda
