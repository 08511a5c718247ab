// CUDA's arithmetic and bit intrinsics, IEEE-true: directed rounding is done by the processor in that rounding mode, never
// by stepping to a neighbour, so signed zeros, subnormals and infinities come out right.
#pragma once

#include <bit>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace reprocuda::emulation {

enum class Rounding : unsigned { kNearest = 0x0000, kDown = 0x2000, kUp = 0x4000, kZero = 0x6000 };  // MXCSR bits

#if defined(__x86_64__)

// One asm block switches, computes and switches back: the compiler can move nothing into or out of the mode.
#define REPROCUDA_ROUNDED_OPERATION(name, type, instruction)                             \
  template <Rounding mode>                                                               \
  inline type name(type a, type b) {                                                     \
    const unsigned inside = 0x1f80u | static_cast<unsigned>(mode);                       \
    unsigned outside;                                                                    \
    asm volatile("stmxcsr %0" : "=m"(outside));                                          \
    asm volatile("ldmxcsr %2\n\t" instruction " %1, %0\n\tldmxcsr %3"                    \
                 : "+x"(a)                                                               \
                 : "x"(b), "m"(inside), "m"(outside));                                   \
    return a;                                                                            \
  }

REPROCUDA_ROUNDED_OPERATION(rounded_add, double, "addsd")
REPROCUDA_ROUNDED_OPERATION(rounded_multiply, double, "mulsd")
REPROCUDA_ROUNDED_OPERATION(rounded_divide, double, "divsd")
REPROCUDA_ROUNDED_OPERATION(rounded_add, float, "addss")
REPROCUDA_ROUNDED_OPERATION(rounded_multiply, float, "mulss")
REPROCUDA_ROUNDED_OPERATION(rounded_divide, float, "divss")
#undef REPROCUDA_ROUNDED_OPERATION

template <Rounding mode>
inline float rounded_narrow(double a) {
  const unsigned inside = 0x1f80u | static_cast<unsigned>(mode);
  unsigned outside;
  float result;
  asm volatile("stmxcsr %0" : "=m"(outside));
  asm volatile("ldmxcsr %2\n\tcvtsd2ss %1, %0\n\tldmxcsr %3" : "=&x"(result) : "x"(a), "m"(inside), "m"(outside));
  return result;
}

#else

constexpr int fenv_mode(Rounding mode) {
  return mode == Rounding::kDown   ? FE_DOWNWARD
         : mode == Rounding::kUp   ? FE_UPWARD
         : mode == Rounding::kZero ? FE_TOWARDZERO
                                   : FE_TONEAREST;
}

template <Rounding mode, class T, class Operation>
__attribute__((noinline)) T in_mode(T a, T b, Operation operation) {
  const int outside = std::fegetround();
  std::fesetround(fenv_mode(mode));
  volatile T x = a, y = b;
  volatile auto result = operation(x, y);
  std::fesetround(outside);
  return result;
}
template <Rounding mode, class T>
T rounded_add(T a, T b) { return in_mode<mode>(a, b, [](T x, T y) { return x + y; }); }
template <Rounding mode, class T>
T rounded_multiply(T a, T b) { return in_mode<mode>(a, b, [](T x, T y) { return x * y; }); }
template <Rounding mode, class T>
T rounded_divide(T a, T b) { return in_mode<mode>(a, b, [](T x, T y) { return x / y; }); }
template <Rounding mode>
float rounded_narrow(double a) {
  return static_cast<float>(in_mode<mode>(a, a, [](double x, double) { return static_cast<double>(static_cast<float>(x)); }));
}

#endif

// CUDA declares these globally; here they are seen from everywhere by the using directive at the end of cuda_emulation.h.
namespace device {

inline double __dadd_rn(double a, double b) { return rounded_add<Rounding::kNearest>(a, b); }
inline double __dadd_rd(double a, double b) { return rounded_add<Rounding::kDown>(a, b); }
inline double __dadd_ru(double a, double b) { return rounded_add<Rounding::kUp>(a, b); }
inline double __dadd_rz(double a, double b) { return rounded_add<Rounding::kZero>(a, b); }
inline double __dsub_rn(double a, double b) { return __dadd_rn(a, -b); }
inline double __dsub_rd(double a, double b) { return __dadd_rd(a, -b); }
inline double __dsub_ru(double a, double b) { return __dadd_ru(a, -b); }
inline double __dmul_rn(double a, double b) { return rounded_multiply<Rounding::kNearest>(a, b); }
inline double __dmul_rd(double a, double b) { return rounded_multiply<Rounding::kDown>(a, b); }
inline double __dmul_ru(double a, double b) { return rounded_multiply<Rounding::kUp>(a, b); }
inline double __dmul_rz(double a, double b) { return rounded_multiply<Rounding::kZero>(a, b); }
inline double __ddiv_rn(double a, double b) { return rounded_divide<Rounding::kNearest>(a, b); }
inline double __ddiv_rd(double a, double b) { return rounded_divide<Rounding::kDown>(a, b); }
inline double __ddiv_ru(double a, double b) { return rounded_divide<Rounding::kUp>(a, b); }
inline double __ddiv_rz(double a, double b) { return rounded_divide<Rounding::kZero>(a, b); }
inline float __fadd_rn(float a, float b) { return rounded_add<Rounding::kNearest>(a, b); }
inline float __fadd_rd(float a, float b) { return rounded_add<Rounding::kDown>(a, b); }
inline float __fadd_ru(float a, float b) { return rounded_add<Rounding::kUp>(a, b); }
inline float __fsub_rn(float a, float b) { return __fadd_rn(a, -b); }
inline float __fmul_rn(float a, float b) { return rounded_multiply<Rounding::kNearest>(a, b); }
inline float __fmul_rd(float a, float b) { return rounded_multiply<Rounding::kDown>(a, b); }
inline float __fmul_ru(float a, float b) { return rounded_multiply<Rounding::kUp>(a, b); }
inline float __fdiv_rn(float a, float b) { return rounded_divide<Rounding::kNearest>(a, b); }
inline float __double2float_rn(double a) { return rounded_narrow<Rounding::kNearest>(a); }
inline float __double2float_rd(double a) { return rounded_narrow<Rounding::kDown>(a); }
inline float __double2float_ru(double a) { return rounded_narrow<Rounding::kUp>(a); }
inline float __double2float_rz(double a) { return rounded_narrow<Rounding::kZero>(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }

inline double __longlong_as_double(long long a) { return std::bit_cast<double>(a); }
inline long long __double_as_longlong(double a) { return std::bit_cast<long long>(a); }
inline float __int_as_float(int a) { return std::bit_cast<float>(a); }
inline int __float_as_int(float a) { return std::bit_cast<int>(a); }
inline float __uint_as_float(unsigned a) { return std::bit_cast<float>(a); }
inline unsigned __float_as_uint(float a) { return std::bit_cast<unsigned>(a); }
inline int __double2hiint(double a) { return static_cast<int>(std::bit_cast<uint64_t>(a) >> 32); }
inline int __double2loint(double a) { return static_cast<int>(std::bit_cast<uint64_t>(a)); }
inline double __hiloint2double(int hi, int lo) {
  return std::bit_cast<double>(uint64_t{static_cast<uint32_t>(hi)} << 32 | static_cast<uint32_t>(lo));
}

inline int __clz(int a) { return std::countl_zero(static_cast<unsigned>(a)); }
inline int __clzll(long long a) { return std::countl_zero(static_cast<uint64_t>(a)); }
inline int __ffs(int a) { return a == 0 ? 0 : std::countr_zero(static_cast<unsigned>(a)) + 1; }
inline int __ffsll(long long a) { return a == 0 ? 0 : std::countr_zero(static_cast<uint64_t>(a)) + 1; }
inline int __popc(unsigned a) { return std::popcount(a); }
inline int __popcll(unsigned long long a) { return std::popcount(a); }
inline unsigned long long __brevll(unsigned long long a) {
  a = __builtin_bswap64(a);
  a = (a >> 4 & 0x0f0f0f0f0f0f0f0full) | (a & 0x0f0f0f0f0f0f0f0full) << 4;
  a = (a >> 2 & 0x3333333333333333ull) | (a & 0x3333333333333333ull) << 2;
  return (a >> 1 & 0x5555555555555555ull) | (a & 0x5555555555555555ull) << 1;
}
inline unsigned __brev(unsigned a) { return static_cast<unsigned>(__brevll(a) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline long long __mul64hi(long long a, long long b) { return static_cast<long long>(static_cast<__int128>(a) * b >> 64); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>(uint64_t{a} * b >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>(int64_t{a} * b >> 32); }
inline unsigned __funnelshift_l(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((uint64_t{hi} << 32 | lo) << (shift & 31) >> 32);
}
inline unsigned __funnelshift_r(unsigned lo, unsigned hi, unsigned shift) {
  return static_cast<unsigned>((uint64_t{hi} << 32 | lo) >> (shift & 31));
}

template <class T>
T __ldg(const T* p) { return *p; }
template <class T>
T __ldcs(const T* p) { return *p; }
template <class T>
T __ldcg(const T* p) { return *p; }
template <class T>
void __stcs(T* p, T value) { *p = value; }
template <class T>
void __stcg(T* p, T value) { *p = value; }

// CUDA's global min and max.
template <class T>
  requires std::is_arithmetic_v<T>
constexpr T min(T a, T b) { return b < a ? b : a; }
template <class T>
  requires std::is_arithmetic_v<T>
constexpr T max(T a, T b) { return a < b ? b : a; }

}  // namespace device
}  // namespace reprocuda::emulation
