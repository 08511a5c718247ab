// Owns the floating-point environment of one thread for the length of a scope: rounding direction as asked, subnormals
// kept. Callers may have set flush-to-zero, denormals-are-zero or any rounding mode; theirs comes back on leaving.
//
// Compilers know nothing of rounding modes: arithmetic that depends on one lives in kernels reached through function
// pointers, takes its data through memory and is compiled with -frounding-math.
#pragma once

#include <type_traits>

#if defined(__x86_64__)
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace reprocuda::cpu {

enum class RoundingMode { kNearest, kUpward };

// The mode that the filter of an element type needs: intervals go up, compensated sums to nearest.
template <class T>
inline constexpr RoundingMode kRoundingMode = std::is_same_v<T, double> ? RoundingMode::kNearest : RoundingMode::kUpward;

class RoundingScope {
 public:
  explicit RoundingScope(RoundingMode mode) {
#if defined(__x86_64__)
    constexpr unsigned kAllExceptionsMasked = 0x1f80;
    constexpr unsigned kRoundUp = 0x4000;
    saved_ = _mm_getcsr();
    _mm_setcsr(kAllExceptionsMasked | (mode == RoundingMode::kUpward ? kRoundUp : 0));
#else
    std::fegetenv(&saved_);
    std::fesetenv(FE_DFL_ENV);
    std::fesetround(mode == RoundingMode::kUpward ? FE_UPWARD : FE_TONEAREST);
#endif
  }
  ~RoundingScope() {
#if defined(__x86_64__)
    _mm_setcsr(saved_);
#else
    std::fesetenv(&saved_);
#endif
  }
  RoundingScope(const RoundingScope&) = delete;
  RoundingScope& operator=(const RoundingScope&) = delete;

 private:
#if defined(__x86_64__)
  unsigned saved_;
#else
  std::fenv_t saved_;
#endif
};

}  // namespace reprocuda::cpu
