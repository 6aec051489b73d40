// The loops that turn elements into another dtype: the rules of the op cast.
//
// float16 and bfloat16 meet float32 directly, and what float32 cannot hold exactly enough to be rounded twice: float64,
// and for bfloat16 the integers of 32 and 64 bits. The rest goes through float32 in two loops (loops.h).
#include <limits>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "kernels/cpu/isa/loop_kinds.h"
#include "kernels/ops/functors/math.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

template <class To, class From>
TENSORD_HD To BitCast(From x) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, x);
}

// Truncates and saturates; NaN gives 0. Brought into the range first: converting what does not fit is undefined.
template <class I, class F>
TENSORD_HD I Saturate(F x) {
  constexpr I kMin = std::numeric_limits<I>::min();
  constexpr I kMax = std::numeric_limits<I>::max();
  // The first value above the range: a power of two, exact in F.
  constexpr F kAbove = static_cast<F>(uint64_t{1} << (std::numeric_limits<I>::digits - 1)) * F(2);
  constexpr F kLow = static_cast<F>(kMin);
  const bool above = x >= kAbove;
  const bool inside = x > kLow && !above;
  const F safe = inside ? x : F(0);
  I converted;
  if constexpr (sizeof(I) < 4) {
    converted = static_cast<I>(static_cast<int32_t>(safe));
  } else if constexpr (std::is_same_v<I, uint32_t> && sizeof(F) == 8) {
    // By way of int32, which has an instruction everywhere.
    const bool high = safe >= F(2147483648.0);
    converted =
        static_cast<uint32_t>(static_cast<int32_t>(high ? safe - F(2147483648.0) : safe)) + (high ? 0x80000000U : 0U);
  } else {
    converted = static_cast<I>(safe);
  }
  const I outside = above ? kMax : (x <= kLow ? kMin : I{0});
  return inside ? converted : outside;
}

// float64 to float32 with the last bit set where digits were lost: what is rounded once more from there is rounded as
// if once.
TENSORD_HD float RoundToOdd(double x) {
  const float nearest = static_cast<float>(x);
  const double back = nearest;
  const uint32_t bits = BitCast<uint32_t>(nearest);
  const bool away = (back < 0 ? -back : back) > (x < 0 ? -x : x);  // an infinity comes down to the largest number
  const uint32_t odd = (bits - (away ? 1U : 0U)) | 1U;
  return back != x && x == x ? BitCast<float>(odd) : nearest;
}

template <class H>
TENSORD_HD uint16_t ToHalf(float x) {
  const uint32_t u = BitCast<uint32_t>(x);
  if constexpr (std::is_same_v<H, BFloat16>) {
    const uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
    return static_cast<uint16_t>(x != x ? ((u >> 16) | 0x40U) : rounded);
  } else {
    const uint32_t sign = (u >> 16) & 0x8000U;
    const uint32_t magnitude = u & 0x7fffffffU;
    const uint32_t nan = 0x7e00U | ((magnitude >> 13) & 0x1ffU);
    // Below the normal range: adding 1/2 puts the unit in the last place where float16 has it, so the addition itself
    // rounds.
    const uint32_t small = BitCast<uint32_t>(BitCast<float>(magnitude) + 0.5F) - 0x3f000000U;
    const uint32_t normal = (magnitude - 0x38000000U + 0xfffU + ((magnitude >> 13) & 1U)) >> 13;
    uint32_t out = magnitude < 0x38800000U ? small : normal;
    out = magnitude >= 0x477ff000U ? 0x7c00U : out;  // 65520 and more
    out = magnitude > 0x7f800000U ? nan : out;
    return static_cast<uint16_t>(sign | out);
  }
}

template <class H>
TENSORD_HD float FromHalf(uint16_t h) {
  if constexpr (std::is_same_v<H, BFloat16>) {
    return BitCast<float>(static_cast<uint32_t>(h) << 16);
  } else {
    const uint32_t sign = static_cast<uint32_t>(h & 0x8000U) << 16;
    const uint32_t magnitude = h & 0x7fffU;
    const uint32_t special = 0x7f800000U | (magnitude << 13);
    const uint32_t normal = (magnitude << 13) + 0x38000000U;
    const uint32_t small = BitCast<uint32_t>(static_cast<float>(static_cast<int32_t>(magnitude)) * 0x1p-24F);
    const uint32_t finite = magnitude >= 0x400U ? normal : small;
    return BitCast<float>(sign | (magnitude >= 0x7c00U ? special : finite));
  }
}

// An integer as float64 for one more rounding: digits that float64 cannot hold are folded into its last one.
template <class I>
TENSORD_HD double Folded(I x) {
  if constexpr (sizeof(I) < 8) {
    return static_cast<double>(x);
  } else {
    const bool negative = x < 0;
    const uint64_t u = negative ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    const uint64_t folded = u >= (uint64_t{1} << 53) ? ((u & ~uint64_t{0x7ff}) | ((u & 0x7ff) != 0 ? 0x800U : 0U)) : u;
    const double magnitude = static_cast<double>(folded);
    return negative ? -magnitude : magnitude;
  }
}

// The element as it lies in memory.
template <class T>
using Raw = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, uint16_t, Stored<T>>;
template <class T>
inline constexpr bool kHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

template <class To, class From>
TENSORD_HD Raw<To> Convert(Raw<From> x) {
  if constexpr (std::is_same_v<To, bool>) {
    return static_cast<uint8_t>(!(x == From(0)));
  } else if constexpr (std::is_same_v<From, bool>) {
    return static_cast<To>(static_cast<uint8_t>(x != 0));
  } else if constexpr (kHalf<From>) {
    return FromHalf<From>(x);
  } else if constexpr (kHalf<To> && std::is_same_v<From, float>) {
    return ToHalf<To>(x);
  } else if constexpr (kHalf<To> && std::is_same_v<From, double>) {
    return ToHalf<To>(RoundToOdd(x));
  } else if constexpr (kHalf<To>) {
    return ToHalf<To>(RoundToOdd(Folded(x)));
  } else if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    return Saturate<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

template <class To, class From>
void ConvertLoop(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<Raw<To>*>(out);
  const auto* const a = static_cast<const Raw<From>*>(inputs[0]);
  const int64_t m = Whole(n);
#pragma omp simd
  for (int64_t i = 0; i < m; ++i) o[i] = Convert<To, From>(a[i]);
}

#ifdef __F16C__
// The machine's own conversions, which the compiler does not find. The same bits as above, but for NaN, which becomes
// quiet.
template <>
void ConvertLoop<float, Half>(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<float*>(out);
  const auto* const a = static_cast<const uint16_t*>(inputs[0]);
  const int64_t m = Whole(n);
  for (int64_t i = 0; i < m; i += 8) {
    _mm256_storeu_ps(o + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(a + i))));
  }
}

template <>
void ConvertLoop<Half, float>(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<uint16_t*>(out);
  const auto* const a = static_cast<const float*>(inputs[0]);
  const int64_t m = Whole(n);
  for (int64_t i = 0; i < m; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(o + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(a + i), _MM_FROUND_TO_NEAREST_INT));
  }
}
#endif

// Integers that become integers no wider than themselves keep their low bits, and to become bool or wider ones of no
// sign they need none: those loops are shared between signed and unsigned.
template <class To, class From>
Loop Choose() {
  constexpr bool kIntegers =
      std::is_integral_v<To> && std::is_integral_v<From> && !std::is_same_v<To, bool> && !std::is_same_v<From, bool>;
  if constexpr (std::is_same_v<To, From>) {
    return kCopy<sizeof(To)>;
  } else if constexpr (kIntegers && sizeof(To) == sizeof(From)) {
    return kCopy<sizeof(To)>;
  } else if constexpr (kIntegers && sizeof(To) < sizeof(From)) {
    return ConvertLoop<std::make_unsigned_t<To>, std::make_unsigned_t<From>>;
  } else if constexpr (kIntegers) {
    return ConvertLoop<std::make_unsigned_t<To>, From>;
  } else if constexpr (std::is_same_v<To, bool> && std::is_integral_v<From>) {
    return ConvertLoop<bool, std::make_unsigned_t<From>>;
  } else if constexpr (std::is_same_v<From, bool> && std::is_integral_v<To>) {
    return ConvertLoop<std::make_unsigned_t<To>, bool>;
  } else {
    return ConvertLoop<To, From>;
  }
}

}  // namespace

void FillConvert(LoopTable& table) {
  ForEachLoopType([&table]<class From>() {
    Loop(&row)[kDtypeCount] = table.convert[static_cast<int>(DtypeOf<From>)];
    ForEachLoopType([&row]<class To>() { row[static_cast<int>(DtypeOf<To>)] = Choose<To, From>(); });
  });
  const auto set = [&table]<class To, class From>() {
    table.convert[static_cast<int>(DtypeOf<From>)][static_cast<int>(DtypeOf<To>)] = ConvertLoop<To, From>;
  };
  set.template operator()<float, Half>();
  set.template operator()<float, BFloat16>();
  set.template operator()<Half, float>();
  set.template operator()<BFloat16, float>();
  set.template operator()<Half, double>();
  set.template operator()<BFloat16, double>();
  set.template operator()<BFloat16, int32_t>();
  set.template operator()<BFloat16, uint32_t>();
  set.template operator()<BFloat16, int64_t>();
  set.template operator()<BFloat16, uint64_t>();
  for (const Dtype half : {Dtype::kFloat16, Dtype::kBfloat16}) {
    table.convert[static_cast<int>(half)][static_cast<int>(half)] = kCopy<2>;
  }
}

}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
