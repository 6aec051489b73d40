// Elements as the numbers that kernels compute with: float for float16, bfloat16 and float32; double for float64;
// int64_t for bool and integers (uint64 by its bits). Device code alone.
//
//   const float x = Widen(half);                    // a kernel that knows its storage type
//   LoadElements<float>(dtype, data, at, values);   // one that serves several dtypes by a uniform switch
//
// The conversions of kernels/core/half.h are constexpr members, which nvcc does not call from kernels; these give the
// same bits.
#pragma once

#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/reduce_divisor.cuh"
#include "kernels/ops/functors/math.h"

// Before a loop of few steps that must become straight code, its arrays registers.
#if defined(__CUDACC__)
#define TENSORD_UNROLL _Pragma("unroll")
#else
#define TENSORD_UNROLL
#endif

namespace tensord::cuda {

__device__ __forceinline__ float Widen(BFloat16 x) {
  return __builtin_bit_cast(float, static_cast<uint32_t>(x.bits) << 16);
}
__device__ __forceinline__ float Widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000u) << 16;
  const uint32_t magnitude = x.bits & 0x7fffu;
  // Moved to float32's place the exponent is 112 too small; the product mends it, subnormals included.
  const float finite = __builtin_bit_cast(float, magnitude << 13) * 0x1p112F;
  const uint32_t special = 0x7f800000u | (magnitude << 13);
  const uint32_t bits = magnitude >= 0x7c00u ? special : __builtin_bit_cast(uint32_t, finite);
  return __builtin_bit_cast(float, sign | bits);
}
__device__ __forceinline__ float Widen(float x) { return x; }
__device__ __forceinline__ double Widen(double x) { return x; }

// What a storage type computes in.
template <class T>
using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

// To the nearest, halves to even.
__device__ __forceinline__ BFloat16 NarrowToBFloat16(float value) {
  const uint32_t u = __builtin_bit_cast(uint32_t, value);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  BFloat16 out;
  out.bits = static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  return out;
}
__device__ __forceinline__ Half NarrowToHalf(float value) {
  const uint32_t u = __builtin_bit_cast(uint32_t, value);
  const uint32_t magnitude = u & 0x7fffffffu;
  uint32_t bits = 0;
  if (magnitude > 0x7f800000u) {
    bits = 0x7e00u | ((magnitude >> 13) & 0x1ffu);
  } else if (magnitude >= 0x477ff000u) {
    bits = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Adding 0.5 brings the last place of a subnormal half to the last place of the float.
    const float sum = __builtin_bit_cast(float, magnitude) + 0.5F;
    bits = __builtin_bit_cast(uint32_t, sum) - 0x3f000000u;
  } else {
    bits = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  Half out;
  out.bits = static_cast<uint16_t>(((u >> 16) & 0x8000u) | bits);
  return out;
}

template <class T>
__device__ __forceinline__ T Narrow(ComputeOf<T> value) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return NarrowToBFloat16(value);
  } else if constexpr (std::is_same_v<T, Half>) {
    return NarrowToHalf(value);
  } else {
    return value;
  }
}

template <class A, class T>
__device__ __forceinline__ A AsNumber(T x) {
  if constexpr (std::is_same_v<A, int64_t>) {
    return static_cast<int64_t>(x);
  } else {
    return Widen(x);
  }
}

template <class A, class T, int kCount>
__device__ __forceinline__ void LoadTyped(const void* data, const int64_t (&at)[kCount], A (&values)[kCount]) {
  const T* x = static_cast<const T*>(data);
  TENSORD_UNROLL
  for (int i = 0; i < kCount; ++i) values[i] = AsNumber<A>(x[at[i]]);
}

// values[i] = element at[i]. The dtype is one that computes in A.
template <class A, int kCount>
__device__ __forceinline__ void LoadElements(Dtype dtype, const void* data, const int64_t (&at)[kCount],
                                             A (&values)[kCount]) {
  if constexpr (std::is_same_v<A, double>) {
    LoadTyped<A, double>(data, at, values);
  } else if constexpr (std::is_same_v<A, float>) {
    if (dtype == Dtype::kFloat32) return LoadTyped<A, float>(data, at, values);
    if (dtype == Dtype::kFloat16) return LoadTyped<A, Half>(data, at, values);
    LoadTyped<A, BFloat16>(data, at, values);
  } else {
    switch (dtype) {
      case Dtype::kInt8:
        return LoadTyped<A, int8_t>(data, at, values);
      case Dtype::kInt16:
        return LoadTyped<A, int16_t>(data, at, values);
      case Dtype::kInt32:
        return LoadTyped<A, int32_t>(data, at, values);
      case Dtype::kUint8:
        return LoadTyped<A, uint8_t>(data, at, values);
      case Dtype::kUint16:
        return LoadTyped<A, uint16_t>(data, at, values);
      case Dtype::kUint32:
        return LoadTyped<A, uint32_t>(data, at, values);
      case Dtype::kBool:
        // A bool may lie in memory as any byte.
        LoadTyped<A, uint8_t>(data, at, values);
        TENSORD_UNROLL
        for (int i = 0; i < kCount; ++i) values[i] = values[i] != 0 ? 1 : 0;
        return;
      default:
        return LoadTyped<A, int64_t>(data, at, values);
    }
  }
}

template <class A>
__device__ __forceinline__ A LoadElement(Dtype dtype, const void* data, int64_t at) {
  const int64_t place[1] = {at};
  A value[1];
  LoadElements<A>(dtype, data, place, value);
  return value[0];
}

// 1 where the element is not 0 (NaN is not), else 0; of any dtype.
template <int kCount>
__device__ __forceinline__ void LoadNonZero(Dtype dtype, const void* data, const int64_t (&at)[kCount],
                                            int64_t (&values)[kCount]) {
  // A real number is 0 where its bits are, but for the sign.
  uint64_t mask = ~uint64_t{0};
  if (dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16) {
    mask = 0x7fff;
    dtype = Dtype::kUint16;
  } else if (dtype == Dtype::kFloat32) {
    mask = 0x7fffffff;
    dtype = Dtype::kUint32;
  } else if (dtype == Dtype::kFloat64) {
    mask >>= 1;
    dtype = Dtype::kUint64;
  }
  LoadElements<int64_t>(dtype, data, at, values);
  TENSORD_UNROLL
  for (int i = 0; i < kCount; ++i) values[i] = (static_cast<uint64_t>(values[i]) & mask) != 0 ? 1 : 0;
}

// Element `at` = value, rounded to the nearest or, for integers, cut to the width.
template <class A>
__device__ __forceinline__ void StoreElement(Dtype dtype, void* data, int64_t at, A value) {
  if constexpr (std::is_same_v<A, double>) {
    static_cast<double*>(data)[at] = value;
  } else if constexpr (std::is_same_v<A, float>) {
    if (dtype == Dtype::kFloat32) {
      static_cast<float*>(data)[at] = value;
    } else if (dtype == Dtype::kFloat16) {
      static_cast<Half*>(data)[at] = Narrow<Half>(value);
    } else {
      static_cast<BFloat16*>(data)[at] = Narrow<BFloat16>(value);
    }
  } else {
    switch (dtype) {
      case Dtype::kBool:
        static_cast<uint8_t*>(data)[at] = value != 0 ? 1 : 0;
        return;
      case Dtype::kInt8:
      case Dtype::kUint8:
        static_cast<uint8_t*>(data)[at] = static_cast<uint8_t>(value);
        return;
      case Dtype::kInt16:
      case Dtype::kUint16:
        static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>(value);
        return;
      case Dtype::kInt32:
      case Dtype::kUint32:
        static_cast<uint32_t*>(data)[at] = static_cast<uint32_t>(value);
        return;
      default:
        static_cast<int64_t*>(data)[at] = value;
    }
  }
}

// a / d.by and the remainder, by 32 bits where they do.
__device__ __forceinline__ int64_t DivMod(int64_t a, const Divisor& d, int64_t* rest) {
  if (((a | d.by) >> 32) == 0) {
    const uint32_t quotient = static_cast<uint32_t>(a) / static_cast<uint32_t>(d.by);
    *rest = static_cast<uint32_t>(a) - quotient * static_cast<uint32_t>(d.by);
    return quotient;
  }
  // The product is off by less than one.
  auto quotient = static_cast<int64_t>(static_cast<double>(a) * d.inverse);
  int64_t left = a - quotient * d.by;
  if (left < 0) {
    left += d.by;
    --quotient;
  } else if (left >= d.by) {
    left -= d.by;
    ++quotient;
  }
  *rest = left;
  return quotient;
}

// Calls f.operator()<T>() with the storage type of a dtype that is real.
template <class F>
auto WithReal(Dtype dtype, F&& f) {
  switch (dtype) {
    case Dtype::kFloat16:
      return f.template operator()<Half>();
    case Dtype::kBfloat16:
      return f.template operator()<BFloat16>();
    case Dtype::kFloat64:
      return f.template operator()<double>();
    default:
      return f.template operator()<float>();
  }
}

}  // namespace tensord::cuda
