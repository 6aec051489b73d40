// The shapes of loops, written once for every functor.
//
// Everything here is in the variant's own namespace and unnamed inside it: nothing compiled for one instruction set may
// be shared with another. For the same reason these files call inline functions of others only where those are always
// inlined.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cpu/loops.h"
#include "kernels/ops/functors/hd.h"

#define TENSORD_ISA_CONCAT_INNER_(a, b) a##b
#define TENSORD_ISA_CONCAT_(a, b) TENSORD_ISA_CONCAT_INNER_(a, b)
#define TENSORD_ISA_NAMESPACE TENSORD_ISA_CONCAT_(isa_, TENSORD_ISA)

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

template <int kBytes>
using Bits =
    std::conditional_t<kBytes == 1, uint8_t,
                       std::conditional_t<kBytes == 2, uint16_t, std::conditional_t<kBytes == 4, uint32_t, uint64_t>>>;

// How an element lies in memory: a bool is a byte, true where it is not 0 (an upload may bring other values than 1).
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <class T>
TENSORD_HD T Value(Stored<T> x) {
  if constexpr (std::is_same_v<T, bool>) {
    return x != 0;
  } else {
    return x;
  }
}

// So that the compiler knows that there is no tail.
TENSORD_HD int64_t Whole(int64_t n) { return n & ~(kLoopUnit - 1); }

template <class T, class R, class F>
void UnaryLoop(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<Stored<R>*>(out);
  const auto* const a = static_cast<const Stored<T>*>(inputs[0]);
  const int64_t m = Whole(n);
#pragma omp simd
  for (int64_t i = 0; i < m; ++i) o[i] = static_cast<Stored<R>>(F()(Value<T>(a[i])));
}

template <class T, class R, class F>
void BinaryLoop(void* out, const void* const* inputs, int64_t n) {
  auto* const o = static_cast<Stored<R>*>(out);
  const auto* const a = static_cast<const Stored<T>*>(inputs[0]);
  const auto* const b = static_cast<const Stored<T>*>(inputs[1]);
  const int64_t m = Whole(n);
#pragma omp simd
  for (int64_t i = 0; i < m; ++i) o[i] = static_cast<Stored<R>>(F()(Value<T>(a[i]), Value<T>(b[i])));
}

template <class T>
struct Identity {
  TENSORD_HD T operator()(T x) const { return x; }
};

template <int kBytes>
inline constexpr Loop kCopy = UnaryLoop<Bits<kBytes>, Bits<kBytes>, Identity<Bits<kBytes>>>;

// Calls f.template operator()<T>() for every dtype that has loops of its own: all but float16, bfloat16 and complex.
template <class F>
void ForEachLoopType(F&& f) {
  f.template operator()<bool>();
  f.template operator()<int8_t>();
  f.template operator()<int16_t>();
  f.template operator()<int32_t>();
  f.template operator()<int64_t>();
  f.template operator()<uint8_t>();
  f.template operator()<uint16_t>();
  f.template operator()<uint32_t>();
  f.template operator()<uint64_t>();
  f.template operator()<float>();
  f.template operator()<double>();
}

// Whether a row of this rule takes T.
template <TypeRule kRule, class T>
constexpr bool Takes() {
  constexpr bool kBool = std::is_same_v<T, bool>;
  constexpr bool kFloat = std::is_floating_point_v<T>;
  switch (kRule) {
    case TypeRule::kInteger:
      return !kBool && !kFloat;
    case TypeRule::kBoolOrInteger:
      return !kFloat;
    case TypeRule::kReal:
    case TypeRule::kRealToBool:
      return kFloat;
    case TypeRule::kNumeric:
    case TypeRule::kNumericToBool:
      return !kBool;
    default:
      return true;
  }
}

// T, or the unsigned type of its width where signs make no difference to the bits of the result: half as many loops.
template <class T, bool kSignless, bool kSigned = std::is_signed_v<T> && !std::is_floating_point_v<T>>
struct LoopType {
  using Type = T;
};
template <class T>
struct LoopType<T, true, true> {
  using Type = std::make_unsigned_t<T>;
};

template <class F, class... Fs>
inline constexpr bool kOneOf = (std::is_same_v<F, Fs> || ...);

}  // namespace
}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
