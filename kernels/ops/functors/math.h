// Mathematical functions for float and double, the same names for both: math::Exp(x).
//
// On the host with TENSORD_VECTOR_MATH they are the C functions, declared so that the compiler calls their vector
// versions inside a vectorised loop (SLEEF's libsleefgnuabi, 1 ulp); without it, and on devices, plain libm. Results
// may differ by an ulp or two between processors.
//
// Standard library only: device code includes this file.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/ops/functors/hd.h"

#if defined(TENSORD_VECTOR_MATH) && !defined(__CUDACC__)
#define TENSORD_SIMD_FUNCTION __attribute__((simd("notinbranch"), const))
#else
#define TENSORD_SIMD_FUNCTION
#endif

namespace tensord::math {

// TENSORD_MATH_1(Name, cname): Name(float) is cname##f, Name(double) is cname. For device code the toolkit has declared
// them, for both sides; a declaration of our own would be of the host's alone.
#ifdef __CUDACC__
#define TENSORD_MATH_DECLARE_1(cname)
#define TENSORD_MATH_DECLARE_2(cname)
#define TENSORD_MATH_CALL(function) ::function
#else
#define TENSORD_MATH_DECLARE_1(cname)                              \
  extern "C" float cname##f(float) noexcept TENSORD_SIMD_FUNCTION; \
  extern "C" double cname(double) noexcept TENSORD_SIMD_FUNCTION;
#define TENSORD_MATH_DECLARE_2(cname)                                     \
  extern "C" float cname##f(float, float) noexcept TENSORD_SIMD_FUNCTION; \
  extern "C" double cname(double, double) noexcept TENSORD_SIMD_FUNCTION;
#define TENSORD_MATH_CALL(function) function
#endif
#define TENSORD_MATH_1(Name, cname)                                         \
  TENSORD_MATH_DECLARE_1(cname)                                             \
  TENSORD_HD float Name(float x) { return TENSORD_MATH_CALL(cname##f)(x); } \
  TENSORD_HD double Name(double x) { return TENSORD_MATH_CALL(cname)(x); }
#define TENSORD_MATH_2(Name, cname)                                                     \
  TENSORD_MATH_DECLARE_2(cname)                                                         \
  TENSORD_HD float Name(float x, float y) { return TENSORD_MATH_CALL(cname##f)(x, y); } \
  TENSORD_HD double Name(double x, double y) { return TENSORD_MATH_CALL(cname)(x, y); }

// The toolkit's manual gives these functions of float 3 or 4 units in the last place; by way of double they are exact but
// for half of one. Out of line, so that kernels do not hold registers for them.
#ifdef __CUDACC__
#define TENSORD_MATH_WIDE_1(Name, cname)                        \
  __noinline__ __host__ __device__ inline float Name(float x) { \
    return static_cast<float>(::cname(static_cast<double>(x))); \
  }                                                             \
  TENSORD_HD double Name(double x) { return ::cname(x); }
#define TENSORD_MATH_WIDE_2(Name, cname)                                                \
  __noinline__ __host__ __device__ inline float Name(float x, float y) {                \
    return static_cast<float>(::cname(static_cast<double>(x), static_cast<double>(y))); \
  }                                                                                     \
  TENSORD_HD double Name(double x, double y) { return ::cname(x, y); }
#else
#define TENSORD_MATH_WIDE_1 TENSORD_MATH_1
#define TENSORD_MATH_WIDE_2 TENSORD_MATH_2
#endif

TENSORD_MATH_1(Acos, acos)
TENSORD_MATH_1(Asin, asin)
TENSORD_MATH_1(Atan, atan)
TENSORD_MATH_WIDE_1(Atanh, atanh)
TENSORD_MATH_1(Cos, cos)
TENSORD_MATH_1(Erf, erf)
TENSORD_MATH_1(Exp, exp)
TENSORD_MATH_1(Expm1, expm1)
TENSORD_MATH_1(Log, log)
TENSORD_MATH_1(Log10, log10)
TENSORD_MATH_1(Log2, log2)
TENSORD_MATH_1(Sin, sin)
TENSORD_MATH_WIDE_1(Tan, tan)
TENSORD_MATH_1(Tanh, tanh)
TENSORD_MATH_WIDE_2(Atan2, atan2)
TENSORD_MATH_WIDE_2(Hypot, hypot)
TENSORD_MATH_WIDE_2(Pow, pow)

// Those that SLEEF 3.5 gets wrong at the ends of their range, under the names of C, and mended below.
TENSORD_MATH_WIDE_1(C_acosh, acosh)
TENSORD_MATH_WIDE_1(C_asinh, asinh)
TENSORD_MATH_1(C_cosh, cosh)
TENSORD_MATH_1(C_log1p, log1p)
TENSORD_MATH_WIDE_1(C_sinh, sinh)
#undef TENSORD_MATH_WIDE_1
#undef TENSORD_MATH_WIDE_2
#undef TENSORD_MATH_1
#undef TENSORD_MATH_2
#undef TENSORD_MATH_DECLARE_1
#undef TENSORD_MATH_DECLARE_2
#undef TENSORD_MATH_CALL
#ifdef __CUDACC__
TENSORD_HD double C_fmod(double x, double y) { return ::fmod(x, y); }
#else
extern "C" double fmod(double, double) noexcept TENSORD_SIMD_FUNCTION;
TENSORD_HD double C_fmod(double x, double y) { return fmod(x, y); }
#endif

// Exact ones, which the compiler turns into instructions.
#ifdef __CUDACC__
#define TENSORD_BUILTIN(name) ::name
#else
#define TENSORD_BUILTIN(name) __builtin_##name
#endif
TENSORD_HD float Abs(float x) { return TENSORD_BUILTIN(fabsf)(x); }
TENSORD_HD double Abs(double x) { return TENSORD_BUILTIN(fabs)(x); }
TENSORD_HD float Ceil(float x) { return TENSORD_BUILTIN(ceilf)(x); }
TENSORD_HD double Ceil(double x) { return TENSORD_BUILTIN(ceil)(x); }
TENSORD_HD float Copysign(float x, float y) { return TENSORD_BUILTIN(copysignf)(x, y); }
TENSORD_HD double Copysign(double x, double y) { return TENSORD_BUILTIN(copysign)(x, y); }
TENSORD_HD float Floor(float x) { return TENSORD_BUILTIN(floorf)(x); }
TENSORD_HD double Floor(double x) { return TENSORD_BUILTIN(floor)(x); }
TENSORD_HD float Rint(float x) { return TENSORD_BUILTIN(rintf)(x); }  // halves to even
TENSORD_HD double Rint(double x) { return TENSORD_BUILTIN(rint)(x); }
TENSORD_HD float Sqrt(float x) { return TENSORD_BUILTIN(sqrtf)(x); }
TENSORD_HD double Sqrt(double x) { return TENSORD_BUILTIN(sqrt)(x); }
TENSORD_HD float Trunc(float x) { return TENSORD_BUILTIN(truncf)(x); }
TENSORD_HD double Trunc(double x) { return TENSORD_BUILTIN(trunc)(x); }
#undef TENSORD_BUILTIN

template <class T>
inline constexpr bool kIsFloat = std::is_floating_point_v<T>;

// yes where `choice` holds, no elsewhere: by bits, because a compiler would move calls that only one side needs into a
// branch, and vectorise nothing.
template <class T>
TENSORD_HD T Blend(bool choice, T yes, T no) {
  using U = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  const U mask = U{0} - static_cast<U>(choice);
  return __builtin_bit_cast(T, (__builtin_bit_cast(U, yes) & mask) | (__builtin_bit_cast(U, no) & ~mask));
}

// Large ones: acosh and asinh are ln 2x to the last digit, log1p is the logarithm itself.
template <class T>
inline constexpr T kLarge = T(1e9);
template <class T>
inline constexpr T kLn2 = T(0.69314718055994530942);
// Beyond this half of exp(|x|) may still be finite where exp(|x|) is not.
template <class T>
inline constexpr T kExpEnd = sizeof(T) == 4 ? T(88) : T(709);

template <class T>
TENSORD_HD T Acosh(T x) {
  return Blend(x > kLarge<T>, Log(x) + kLn2<T>, C_acosh(x));
}

template <class T>
TENSORD_HD T Asinh(T x) {
  const T magnitude = Abs(x);
  return Copysign(Blend(magnitude > kLarge<T>, Log(magnitude) + kLn2<T>, C_asinh(magnitude)), x);
}

template <class T>
TENSORD_HD T Cosh(T x) {
  const T magnitude = Abs(x);
  const T half = Exp(magnitude * T(0.5));
  return Blend(magnitude > kExpEnd<T>, half * T(0.5) * half, C_cosh(x));
}

template <class T>
TENSORD_HD T Sinh(T x) {
  const T magnitude = Abs(x);
  const T half = Exp(magnitude * T(0.5));
  return Copysign(Blend(magnitude > kExpEnd<T>, half * T(0.5) * half, C_sinh(magnitude)), x);
}

template <class T>
TENSORD_HD T Log1p(T x) {
  return Blend(x > T(1e18), Log(x), C_log1p(x));
}

// The remainder of a truncated division, exact. SLEEF's is as long as x / y is finite: float goes through double,
// double through multiples of y that are powers of two times y; the remainder by infinity is x.
TENSORD_HD float Fmod(float x, float y) {
#ifdef __CUDACC__
  return ::fmodf(x, y);  // exact, and a fraction of the double one's time
#else
  return static_cast<float>(C_fmod(static_cast<double>(x), static_cast<double>(y)));
#endif
}
TENSORD_HD double Fmod(double x, double y) {
#if defined(TENSORD_VECTOR_MATH) && !defined(__CUDACC__)
  const double step = y * 0x1p700;
  return C_fmod(C_fmod(C_fmod(x, step * 0x1p700), step), y);
#else
  return C_fmod(x, y);
#endif
}

// The unsigned type in which an integer wraps without undefined behaviour: at least as wide as int, so that promotion
// to int cannot bring signed overflow back.
template <class T>
using Wrapping = std::conditional_t<(sizeof(T) < 4), uint32_t,
                                    std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>>;

}  // namespace tensord::math
