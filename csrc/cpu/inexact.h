// IEEE 754's inexact status flag, which an operation that rounds raises and only we lower. While it stays clear, additions
// have been exact, in any order and rounding mode; it costs the arithmetic nothing.
//
// Compilers know nothing of it: arithmetic that is watched lives in kernels reached through function pointers.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace reprocuda::cpu {

inline void clear_inexact() {
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() & ~static_cast<unsigned>(_MM_EXCEPT_INEXACT));
#else
  std::feclearexcept(FE_INEXACT);
#endif
}

inline bool is_inexact() {
#if defined(__x86_64__)
  return (_mm_getcsr() & _MM_EXCEPT_INEXACT) != 0;
#else
  return std::fetestexcept(FE_INEXACT) != 0;
#endif
}

}  // namespace reprocuda::cpu
