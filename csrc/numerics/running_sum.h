// A superaccumulator (exact_sum.h) that is rounded after almost every addition, as prefix sums are.
//
// Its limbs are always normalised: an addition carries at once, which seldom goes further than a limb, and rounding looks
// at the three leading limbs and for one below them that is not zero. Guarantee: the exact sum rounded once. Cost: about
// 15 ns for both; more where sums of different size or sign follow each other.
#pragma once

#include "exact_sum.h"

namespace reprocuda {

template <class Format>
class RunningSum {
 public:
  explicit REPROCUDA_HD RunningSum(const ExactSum<Format>& normalized) : flags_(*normalized.flags) {
    for (int k = 0; k < kLimbs; ++k) limbs_[k] = normalized.limbs[k * normalized.stride];
  }

  REPROCUDA_HD void add(double x) {
    int limb = -1;
    int64_t carry = 0;
    const auto put = [&](int at, int64_t amount) {
      if (at >= kLimbs) __builtin_unreachable();  // which the compiler cannot see
      const int64_t sum = limbs_[at] + amount + carry;
      const bool is_top = at + 1 == kLimbs;
      limbs_[at] = is_top ? sum : sum & 0xffffffff;
      carry = is_top ? 0 : sum >> 32;
      limb = at;
    };
    flags_ |= split_term<Format>(x, put);
    for (int at = limb + 1; carry != 0 && at < kLimbs; ++at) put(at, 0);
    if (highest_ < limb) highest_ = limb;
  }

  template <class T>
  REPROCUDA_HD T round() {
    if ((flags_ & kSawNaN) || (flags_ & kInfinities) == kInfinities) return canonical_nan<T>();
    if (flags_ & kInfinities) return infinity<T>((flags_ & kSawNegInf) != 0);
    const bool negative = limbs_[kLimbs - 1] < 0;
    const auto repeats_sign = [&](int k) {
      return k + 1 == kLimbs ? limbs_[k] == (negative ? -1 : 0) : limbs_[k] == (negative ? 0xffffffff : 0);
    };
    while (highest_ > kWindow - 1 && repeats_sign(highest_)) --highest_;
    const int top = highest_ < kWindow - 1 ? kWindow - 1 : highest_;
    int below = top - kWindow;
    while (below >= 0 && limbs_[below] == 0) --below;
    const bool sticky = below >= 0;

    __extension__ typedef __int128 Wide;
    __extension__ typedef unsigned __int128 UnsignedWide;
    const int64_t leading = negative && top + 1 < kLimbs ? limbs_[top] - (int64_t{1} << 32) : limbs_[top];
    const uint64_t rest = static_cast<uint64_t>(limbs_[top - 1]) << 32 | static_cast<uint64_t>(limbs_[top - 2]);
    const Wide window = static_cast<Wide>(static_cast<UnsignedWide>(leading) << 64 | rest);
    // What is cut off below the window is added to it, so it takes away from the size of a negative sum.
    const UnsignedWide size = static_cast<UnsignedWide>(!negative ? window : sticky ? ~window : -window);
    if (size == 0 && !sticky) return zero<T>((flags_ & kSawNonNegZero) == 0);
    return round_scaled_wide<T>(negative, static_cast<uint64_t>(size >> 64), static_cast<uint64_t>(size),
                                Format::kLowestExponent + 32 * (top - kWindow + 1), sticky);
  }

 private:
  static constexpr int kLimbs = Format::kLimbs;
  static constexpr int kWindow = 3;
  static constexpr uint32_t kInfinities = kSawPosInf | kSawNegInf;

  int64_t limbs_[kLimbs] = {};
  uint32_t flags_;
  int highest_ = kLimbs - 1;  // limbs above it repeat the sign
};

}  // namespace reprocuda
