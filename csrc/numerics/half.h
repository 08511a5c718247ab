// The 16-bit formats as storage: no arithmetic, only exact widening.
//
// On the host, to_float of a Half and of a BFloat16 is integer arithmetic or an exact product of normal numbers, so it
// depends on no floating-point mode. Widening a float to double is one conversion instruction: exact, but DAZ must be off for
// subnormals.
#pragma once

#include "config.h"

namespace reprocuda {

struct Half {
  uint16_t bits;
};

struct BFloat16 {
  uint16_t bits;
};

REPROCUDA_HD float to_float(Half value) {
#ifdef __CUDA_ARCH__
  float widened;  // one instruction, exact for subnormals too
  asm("cvt.f32.f16 %0, %1;" : "=f"(widened) : "h"(value.bits));
  return widened;
#else
  const uint32_t sign = static_cast<uint32_t>(value.bits & 0x8000u) << 16;
  const uint32_t magnitude = value.bits & 0x7fffu;
  // A subnormal is a small integer times 2^-24, a normal float: no subnormal ever enters the arithmetic.
  const float small = static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24f;
  const uint32_t normal = (magnitude << 13) + (112u << 23);
  const uint32_t special = (magnitude << 13) + (224u << 23);
  const uint32_t widened = magnitude < 0x0400u   ? __builtin_bit_cast(uint32_t, small)
                           : magnitude < 0x7c00u ? normal
                                                 : special;
  return __builtin_bit_cast(float, widened | sign);
#endif
}

REPROCUDA_HD float to_float(BFloat16 value) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(value.bits) << 16);
}

REPROCUDA_HD float to_float(float value) { return value; }

REPROCUDA_HD double to_double(Half value) { return static_cast<double>(to_float(value)); }
REPROCUDA_HD double to_double(BFloat16 value) { return static_cast<double>(to_float(value)); }
REPROCUDA_HD double to_double(float value) { return static_cast<double>(value); }
REPROCUDA_HD double to_double(double value) { return value; }

}  // namespace reprocuda
