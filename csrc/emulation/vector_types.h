// CUDA's vector types, with its alignment.
#pragma once

#include <cstdint>

#define REPROCUDA_VECTOR_TYPES(element, name)                                              \
  struct name##1 { element x; };                                                           \
  struct alignas(2 * sizeof(element)) name##2 { element x, y; };                           \
  struct name##3 { element x, y, z; };                                                     \
  struct alignas(sizeof(element) == 8 ? 16 : 4 * sizeof(element)) name##4 { element x, y, z, w; }; \
  inline name##2 make_##name##2(element x, element y) { return {x, y}; }                   \
  inline name##3 make_##name##3(element x, element y, element z) { return {x, y, z}; }     \
  inline name##4 make_##name##4(element x, element y, element z, element w) { return {x, y, z, w}; }

REPROCUDA_VECTOR_TYPES(signed char, char)
REPROCUDA_VECTOR_TYPES(unsigned char, uchar)
REPROCUDA_VECTOR_TYPES(short, short)
REPROCUDA_VECTOR_TYPES(unsigned short, ushort)
REPROCUDA_VECTOR_TYPES(int, int)
REPROCUDA_VECTOR_TYPES(unsigned, uint)
REPROCUDA_VECTOR_TYPES(long, long)
REPROCUDA_VECTOR_TYPES(unsigned long, ulong)
REPROCUDA_VECTOR_TYPES(long long, longlong)
REPROCUDA_VECTOR_TYPES(unsigned long long, ulonglong)
REPROCUDA_VECTOR_TYPES(float, float)
REPROCUDA_VECTOR_TYPES(double, double)
#undef REPROCUDA_VECTOR_TYPES

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};
