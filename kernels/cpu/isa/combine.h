// How elements become one: sums, products and extremes of a contiguous row, in a tree of fixed shape.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cpu/isa/loop_kinds.h"
#include "kernels/cpu/reduce_loops.h"

namespace tensord::cpu::TENSORD_ISA_NAMESPACE {
namespace {

// The arithmetic of one (combine, lane). Integers wrap: they compute unsigned.
template <Combine kCombine, class A>
struct Arithmetic {
  static A Identity() {
    if constexpr (kCombine == Combine::kSum) {
      return A(0);
    } else if constexpr (kCombine == Combine::kProd) {
      return A(1);
    } else if constexpr (kCombine == Combine::kMax) {
      return std::numeric_limits<A>::has_infinity ? -std::numeric_limits<A>::infinity()
                                                  : std::numeric_limits<A>::lowest();
    } else {
      return std::numeric_limits<A>::has_infinity ? std::numeric_limits<A>::infinity() : std::numeric_limits<A>::max();
    }
  }
  static A Apply(A a, A b) {
    if constexpr (kCombine == Combine::kSum || kCombine == Combine::kProd) {
      if constexpr (std::is_integral_v<A>) {
        using W = std::make_unsigned_t<A>;
        const W x = static_cast<W>(a);
        const W y = static_cast<W>(b);
        return static_cast<A>(kCombine == Combine::kSum ? static_cast<W>(x + y) : static_cast<W>(x * y));
      } else {
        return kCombine == Combine::kSum ? a + b : a * b;
      }
    } else if constexpr (std::is_integral_v<A>) {
      if constexpr (kCombine == Combine::kMax) {
        return b > a ? b : a;
      } else {
        return b < a ? b : a;
      }
    } else if constexpr (kCombine == Combine::kMax) {
      return (b > a) | (b != b) ? b : a;
    } else {
      return (b < a) | (b != b) ? b : a;
    }
  }
  static bool Beats(A a, A b) {
    if constexpr (std::is_integral_v<A>) {
      return kCombine == Combine::kMax ? a > b : a < b;
    } else {
      const bool better = kCombine == Combine::kMax ? a > b : a < b;
      return better | ((a != a) & (b == b));
    }
  }
};

// n elements in kCount interleaved sums, which then join as a tree.
template <Combine kCombine, class A, class U, int kCount>
inline A Interleaved(const U* x, int64_t n) {
  using Op = Arithmetic<kCombine, U>;
  U sums[kCount];
  for (int l = 0; l < kCount; ++l) sums[l] = Op::Identity();
  int64_t i = 0;
  for (; i + kCount <= n; i += kCount) {
    for (int l = 0; l < kCount; ++l) sums[l] = Op::Apply(sums[l], x[i + l]);
  }
  if (i < n) {
    // What is left is filled up to a whole step.
    U rest[kCount];
    for (int l = 0; l < kCount; ++l) rest[l] = Op::Identity();
    __builtin_memcpy(rest, x + i, static_cast<size_t>(n - i) * sizeof(U));
    for (int l = 0; l < kCount; ++l) sums[l] = Op::Apply(sums[l], rest[l]);
  }
  if constexpr (std::is_same_v<A, U>) {
    for (int half = kCount / 2; half > 0; half /= 2) {
      for (int l = 0; l < half; ++l) sums[l] = Op::Apply(sums[l], sums[l + half]);
    }
    return sums[0];
  } else {
    A total = 0;
    for (int l = 0; l < kCount; ++l) total += sums[l];
    return total;
  }
}

}  // namespace
}  // namespace tensord::cpu::TENSORD_ISA_NAMESPACE
