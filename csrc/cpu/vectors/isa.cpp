#include "isa.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace reprocuda::cpu {
namespace {

Isa widest_isa() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
    return avx512 ? Isa::kAvx512 : Isa::kAvx2;
  }
#endif
  return Isa::kPortable;
}

Isa requested_isa() {
  const char* name = std::getenv("REPROCUDA_CPU_ISA");
  const std::string request = name == nullptr ? "" : name;
  if (request == "portable") return Isa::kPortable;
  if (request == "avx2") return Isa::kAvx2;
  if (request == "avx512" || request.empty()) return Isa::kAvx512;
  throw std::invalid_argument("REPROCUDA_CPU_ISA must be portable, avx2 or avx512, not '" + request + "'");
}

}  // namespace

Isa selected_isa() {
  static const Isa isa = [] {
    const Isa widest = widest_isa();
    const Isa request = requested_isa();
    return request < widest ? request : widest;
  }();
  return isa;
}

}  // namespace reprocuda::cpu
