// Elements as they lie in memory, and as they are computed with: the rules of the op cast, for one element.
//
//   const uint64_t bits = LoadBits(data, ItemSize(from), i);
//   const float x = FromBits<float>(bits, from, Dtype::kFloat16);   // rounded to float16, held in a float
//   StoreBits(out, ItemSize(to), i, ToBits<float>(x, to));
//
// C is the type of a value class: int32_t, int64_t, uint64_t, float, double. Dtypes are the same for all threads, so
// the switches do not diverge.
//
// Device code only.
#pragma once

#include <limits>
#include <type_traits>

#include "kernels/core/dtype.h"
#include "kernels/core/half.h"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/program_memory.cuh"
#include "kernels/ops/functors/hd.h"

namespace tensord::cuda {

template <class To, class From>
TENSORD_HD To BitsAs(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

// float16 as float32, without a branch. The two exponents' biases differ by 112; multiplying by 2^112 brings
// subnormals into place as well.
TENSORD_HD float FloatOf(Half h) {
  const uint32_t magnitude = h.bits & 0x7fffU;
  const float scaled = BitsAs<float>(magnitude << 13) * 0x1p112F;
  const uint32_t special = magnitude >= 0x7c00U ? 0x7f800000U : 0U;
  return BitsAs<float>(BitsAs<uint32_t>(scaled) | special | static_cast<uint32_t>(h.bits & 0x8000U) << 16);
}

// float64 to float32 with the last bit set where digits were lost: rounded once more from there, to a format of at most
// 22 digits, it is rounded as if once.
TENSORD_HD float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  if (back == x || x != x) return nearest;
  const bool away = (back < 0 ? -back : back) > (x < 0 ? -x : x);  // an infinity comes down to the largest number
  return BitsAs<float>((BitsAs<uint32_t>(nearest) - (away ? 1U : 0U)) | 1U);
}

// The same for 64-bit integers: digits that float64 cannot hold are folded into its last one first.
template <class I>
TENSORD_HD float IntegerToOdd(I x) {
  if constexpr (sizeof(I) < 8) {
    return RoundToOdd(static_cast<double>(x));
  } else {
    const bool negative = std::is_signed_v<I> && x < I(0);
    const uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    const uint64_t sticky = (magnitude & 0x7ff) != 0 ? 0x800U : 0U;
    const double folded =
        static_cast<double>(magnitude >> 53 != 0 ? ((magnitude & ~uint64_t{0x7ff}) | sticky) : magnitude);
    return RoundToOdd(negative ? -folded : folded);
  }
}

// The bounds of an integer dtype (of bool: of a byte).
template <class C>
struct Bounds {
  C low, high;
};
template <class C>
TENSORD_HD Bounds<C> BoundsOf(Dtype dtype) {
  if constexpr (std::is_same_v<C, int32_t>) {
    switch (dtype) {
      case Dtype::kInt8:
        return {-128, 127};
      case Dtype::kInt16:
        return {-32768, 32767};
      case Dtype::kUint8:
        return {0, 255};
      case Dtype::kUint16:
        return {0, 65535};
      default:
        break;
    }
  } else if constexpr (std::is_same_v<C, int64_t>) {
    if (dtype == Dtype::kUint32) return {0, 4294967295};
  }
  return {std::numeric_limits<C>::min(), std::numeric_limits<C>::max()};
}

// Truncated and saturated; NaN gives 0. Compared first: converting what does not fit is undefined.
template <class C, class F>
TENSORD_HD C Saturated(F x, Dtype dtype) {
  const Bounds<C> bounds = BoundsOf<C>(dtype);
  // The bound, or the power of two above it where F cannot hold it: then nothing lies between the two.
  if (x >= static_cast<F>(bounds.high)) return bounds.high;
  if (x <= static_cast<F>(bounds.low)) return bounds.low;
  return x == x ? static_cast<C>(x) : C(0);
}

// Brings a value to what `dtype`, of the class or bool, can hold: narrows integers, rounds reals.
template <class C>
TENSORD_HD C Rounded(C x, Dtype dtype) {
  if (dtype == Dtype::kBool) return static_cast<C>(!(x == C(0)));
  if constexpr (std::is_same_v<C, int32_t>) {
    switch (dtype) {
      case Dtype::kInt8:
        return static_cast<int8_t>(x);
      case Dtype::kInt16:
        return static_cast<int16_t>(x);
      case Dtype::kUint8:
        return static_cast<uint8_t>(x);
      case Dtype::kUint16:
        return static_cast<uint16_t>(x);
      default:
        return x;
    }
  } else if constexpr (std::is_same_v<C, int64_t>) {
    return dtype == Dtype::kUint32 ? static_cast<int64_t>(static_cast<uint32_t>(x)) : x;
  } else if constexpr (std::is_same_v<C, float>) {
    if (dtype == Dtype::kFloat16) return static_cast<float>(Half(x));
    if (dtype == Dtype::kBfloat16) return static_cast<float>(BFloat16(x));
    return x;
  } else {
    return x;
  }
}

// A number of type From as a value of `dtype`, rounded once.
template <class C, class From>
TENSORD_HD C Converted(From x, Dtype dtype) {
  if (dtype == Dtype::kBool) return static_cast<C>(!(x == From(0)));
  if constexpr (std::is_same_v<From, bool>) {
    return static_cast<C>(x);
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<C>) {
    return Saturated<C>(x, dtype);
  } else if constexpr (std::is_integral_v<C>) {
    return Rounded(static_cast<C>(x), dtype);
  } else if constexpr (std::is_same_v<C, float> && sizeof(From) >= 4 && !std::is_same_v<From, float>) {
    // float32 would be rounded to float16 or bfloat16 a second time.
    if (dtype == Dtype::kFloat32) return static_cast<float>(x);
    if constexpr (std::is_same_v<From, double>) {
      return Rounded(RoundToOdd(x), dtype);
    } else {
      return Rounded(IntegerToOdd(x), dtype);
    }
  } else {
    return Rounded(static_cast<C>(x), dtype);
  }
}

// An element of dtype `from` as a value of dtype `to`.
template <class C>
TENSORD_HD C FromBits(uint64_t bits, Dtype from, Dtype to) {
  switch (from) {
    case Dtype::kBool:
      return Converted<C>(bits != 0, to);  // an upload may bring other bytes than 1
    case Dtype::kInt8:
      return Converted<C>(static_cast<int8_t>(bits), to);
    case Dtype::kInt16:
      return Converted<C>(static_cast<int16_t>(bits), to);
    case Dtype::kInt32:
      return Converted<C>(static_cast<int32_t>(bits), to);
    case Dtype::kInt64:
      return Converted<C>(static_cast<int64_t>(bits), to);
    case Dtype::kUint8:
      return Converted<C>(static_cast<uint8_t>(bits), to);
    case Dtype::kUint16:
      return Converted<C>(static_cast<uint16_t>(bits), to);
    case Dtype::kUint32:
      return Converted<C>(static_cast<uint32_t>(bits), to);
    case Dtype::kUint64:
      return Converted<C>(bits, to);
    case Dtype::kFloat16:
      return Converted<C>(FloatOf(BitsAs<Half>(static_cast<uint16_t>(bits))), to);
    case Dtype::kBfloat16:
      return Converted<C>(static_cast<float>(BitsAs<BFloat16>(static_cast<uint16_t>(bits))), to);
    case Dtype::kFloat32:
      return Converted<C>(BitsAs<float>(static_cast<uint32_t>(bits)), to);
    default:
      return Converted<C>(BitsAs<double>(bits), to);
  }
}

// Elements of a dtype of the class, or of bool, as values: exact.
template <class C>
TENSORD_HD void OwnFromBits(const uint64_t (&bits)[4], Dtype dtype, C (&values)[4]) {
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == Dtype::kFloat32) {
      for (int l = 0; l < 4; ++l) values[l] = BitsAs<float>(static_cast<uint32_t>(bits[l]));
      return;
    }
    if (dtype == Dtype::kFloat16) {
      for (int l = 0; l < 4; ++l) values[l] = FloatOf(BitsAs<Half>(static_cast<uint16_t>(bits[l])));
      return;
    }
    if (dtype == Dtype::kBfloat16) {
      for (int l = 0; l < 4; ++l) values[l] = static_cast<float>(BitsAs<BFloat16>(static_cast<uint16_t>(bits[l])));
      return;
    }
  } else if constexpr (std::is_same_v<C, double>) {
    if (dtype == Dtype::kFloat64) {
      for (int l = 0; l < 4; ++l) values[l] = BitsAs<double>(bits[l]);
      return;
    }
  } else if (dtype != Dtype::kBool) {
    for (int l = 0; l < 4; ++l) values[l] = Rounded(static_cast<C>(bits[l]), dtype);
    return;
  }
  for (int l = 0; l < 4; ++l) values[l] = static_cast<C>(bits[l] != 0);
}

// The element of `dtype`, of the class or bool, that holds a value rounded to it.
template <class C>
TENSORD_HD uint64_t ToBits(C x, Dtype dtype) {
  if (dtype == Dtype::kBool) return !(x == C(0));
  if constexpr (std::is_same_v<C, float>) {
    if (dtype == Dtype::kFloat16) return Half(x).bits;
    if (dtype == Dtype::kBfloat16) return BFloat16(x).bits;
    return BitsAs<uint32_t>(x);
  } else if constexpr (std::is_same_v<C, double>) {
    return BitsAs<uint64_t>(x);
  } else {
    return static_cast<uint64_t>(x);
  }
}

// A number as an element of any dtype.
template <class From>
TENSORD_HD uint64_t AnyBits(From x, Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt64:
    case Dtype::kUint32:
      return ToBits(Converted<int64_t>(x, dtype), dtype);
    case Dtype::kUint64:
      return ToBits(Converted<uint64_t>(x, dtype), dtype);
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
    case Dtype::kFloat32:
      return ToBits(Converted<float>(x, dtype), dtype);
    case Dtype::kFloat64:
      return ToBits(Converted<double>(x, dtype), dtype);
    default:
      return ToBits(Converted<int32_t>(x, dtype), dtype);
  }
}

}  // namespace tensord::cuda
