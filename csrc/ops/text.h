// A str argument of an operator.
#pragma once

#include <memory>
#include <string>
#include <type_traits>

#include <torch/csrc/stable/c/shim.h>

#include "check.h"

namespace reprocuda {

// The text of a str argument, which the called operator owns and frees here. As a std::string torch would convert the argument
// itself, but loses one for every call (ToImpl<std::string> in torch/csrc/stable/stableivalue_conversions.h, 2.10 to 2.13).
inline std::string take_string(StringHandle argument) {
  const auto free = [](StringHandle handle) { torch_delete_string(handle); };
  const std::unique_ptr<std::remove_pointer_t<StringHandle>, decltype(free)> owned(argument, free);
  const char* text = nullptr;
  size_t length = 0;
  TORCH_ERROR_CODE_CHECK(torch_string_c_str(argument, &text));
  TORCH_ERROR_CODE_CHECK(torch_string_length(argument, &length));
  return std::string(text, length);
}

}  // namespace reprocuda
