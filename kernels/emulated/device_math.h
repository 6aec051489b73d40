// Mathematics that CUDA has and <cmath> has not. Part of device.h.
//
// What CUDA documents as approximate (__expf …) is exact here: tests compare with tolerances.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tensord::emulated {

template <class To, class From>
inline To Bits(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace tensord::emulated

template <class T>
inline T __ldg(const T* data) {
  static_assert(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>, "CUDA has __ldg for numbers only");
  return *data;
}

inline int __float_as_int(float x) { return ::tensord::emulated::Bits<int>(x); }
inline unsigned __float_as_uint(float x) { return ::tensord::emulated::Bits<unsigned>(x); }
inline float __int_as_float(int x) { return ::tensord::emulated::Bits<float>(x); }
inline float __uint_as_float(unsigned x) { return ::tensord::emulated::Bits<float>(x); }
inline long long __double_as_longlong(double x) { return ::tensord::emulated::Bits<long long>(x); }
inline double __longlong_as_double(long long x) { return ::tensord::emulated::Bits<double>(x); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz(static_cast<unsigned>(x)); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32); }
inline int __mulhi(int a, int b) { return static_cast<int>((static_cast<int64_t>(a) * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>((static_cast<unsigned __int128>(a) * b) >> 64);
}

inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0F / std::sqrt(x); }
inline double rsqrt(double x) { return 1.0 / std::sqrt(x); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

#define TENSORD_MIN_MAX(T)                            \
  constexpr T min(T a, T b) { return b < a ? b : a; } \
  constexpr T max(T a, T b) { return a < b ? b : a; }
TENSORD_MIN_MAX(int)
TENSORD_MIN_MAX(unsigned)
TENSORD_MIN_MAX(long)
TENSORD_MIN_MAX(unsigned long)
TENSORD_MIN_MAX(long long)
TENSORD_MIN_MAX(unsigned long long)
#undef TENSORD_MIN_MAX
