// The scalar meaning of the Binary rows: one struct a row, named as its enumerator (unary.h says how they are used).
//
// Integers wrap. Integer division and remainder by zero give 0. floor_divide and remainder are Python's, for infinities
// and signed zeros too.
//
// Standard library only: device code includes this file.
#pragma once

#include <limits>

#include "kernels/ops/functors/math.h"

namespace tensord::functors {

// Rows that are an operator: in a wrapping type for integers.
#define TENSORD_BINARY_WRAPPING(Name, op)                                                              \
  struct Name {                                                                                        \
    template <class T>                                                                                 \
    TENSORD_HD T operator()(T a, T b) const {                                                          \
      if constexpr (math::kIsFloat<T>) {                                                               \
        return a op b;                                                                                 \
      } else {                                                                                         \
        return static_cast<T>(static_cast<math::Wrapping<T>>(a) op static_cast<math::Wrapping<T>>(b)); \
      }                                                                                                \
    }                                                                                                  \
  };
TENSORD_BINARY_WRAPPING(Add, +)
TENSORD_BINARY_WRAPPING(Multiply, *)
TENSORD_BINARY_WRAPPING(Subtract, -)
#undef TENSORD_BINARY_WRAPPING

#define TENSORD_BINARY_BITS(Name, op)         \
  struct Name {                               \
    template <class T>                        \
    TENSORD_HD T operator()(T a, T b) const { \
      return static_cast<T>(a op b);          \
    }                                         \
  };
TENSORD_BINARY_BITS(BitwiseAnd, &)
TENSORD_BINARY_BITS(BitwiseOr, |)
TENSORD_BINARY_BITS(BitwiseXor, ^)
#undef TENSORD_BINARY_BITS

struct Atan2 {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    return math::Atan2(a, b);
  }
};

struct BitwiseLeftShift {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    using U = math::Wrapping<T>;
    constexpr U kWidth = sizeof(T) * 8;
    const U shift = static_cast<U>(b);  // a negative one becomes huge
    return static_cast<T>(shift < kWidth ? static_cast<U>(a) << (shift & (sizeof(U) * 8 - 1)) : U{0});
  }
};

struct BitwiseRightShift {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    using U = math::Wrapping<T>;
    constexpr U kLast = sizeof(T) * 8 - 1;
    const U shift = static_cast<U>(b);
    if constexpr (std::is_signed_v<T>) {
      return static_cast<T>(a >> (shift < kLast ? shift : kLast));  // by width - 1: all bits are the sign's
    } else {
      return static_cast<T>(shift <= kLast ? static_cast<U>(a) >> (shift & kLast) : U{0});
    }
  }
};

struct Copysign {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    return math::Copysign(a, b);
  }
};

struct Divide {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    return a / b;
  }
};

struct Fmod {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      return math::Fmod(a, b);
    } else if constexpr (std::is_signed_v<T>) {
      return b == T(0) || b == T(-1) ? T(0) : static_cast<T>(a % b);  // MIN % -1 traps
    } else {
      return b == T(0) ? T(0) : static_cast<T>(a % b);
    }
  }
};

struct FloorDivide {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      const T quotient = a / b;
      const T rest = math::Fmod(a, b);
      // a - rest is a multiple of b up to one rounding, so the quotient is a whole number or a hair beside it.
      T exact = (a - rest) / b;
      exact = rest != T(0) && (rest < T(0)) != (b < T(0)) ? exact - T(1) : exact;
      const T down = math::Floor(exact);
      const T whole = exact - down > T(0.5) ? down + T(1) : down;
      const T signed_zero = math::Copysign(T(0), quotient);
      // By zero: infinity, or NaN for 0 / 0, as for a true division.
      return b == T(0) ? quotient : (exact == T(0) ? signed_zero : whole);
    } else if constexpr (std::is_signed_v<T>) {
      if (b == T(0)) return T(0);
      if (b == T(-1))
        return static_cast<T>(math::Wrapping<T>{0} - static_cast<math::Wrapping<T>>(a));  // MIN / -1 traps
      const T quotient = static_cast<T>(a / b);
      const T rest = static_cast<T>(a % b);
      return static_cast<T>(quotient - (rest != T(0) && (rest < T(0)) != (b < T(0))));
    } else {
      return b == T(0) ? T(0) : static_cast<T>(a / b);
    }
  }
};

struct Remainder {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      const T rest = math::Fmod(a, b);
      const T moved = (rest < T(0)) != (b < T(0)) ? rest + b : rest;
      return rest == T(0) ? math::Copysign(T(0), b) : moved;
    } else if constexpr (std::is_signed_v<T>) {
      if (b == T(0) || b == T(-1)) return T(0);
      const T rest = static_cast<T>(a % b);
      return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
    } else {
      return b == T(0) ? T(0) : static_cast<T>(a % b);
    }
  }
};

struct Hypot {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    return math::Hypot(a, b);
  }
};

struct Maximum {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      return a > b || a != a ? a : b;
    } else {
      return a > b ? a : b;
    }
  }
};

struct Minimum {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      return a < b || a != a ? a : b;
    } else {
      return a < b ? a : b;
    }
  }
};

// The larger plus log1p(exp(-distance)). Equal operands, infinite ones among them, have distance 0.
struct LogAddExp {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    const T distance = a == b ? T(0) : math::Abs(a - b);
    return Maximum()(a, b) + math::Log1p(math::Exp(-distance));
  }
};

struct Power {
  template <class T>
  TENSORD_HD T operator()(T a, T b) const {
    if constexpr (math::kIsFloat<T>) {
      return math::Pow(a, b);
    } else {
      using U = math::Wrapping<T>;
      if constexpr (std::is_signed_v<T>) {
        if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? static_cast<T>(b % 2 == 0 ? 1 : -1) : T(0);
      }
      U result = 1;
      U square = static_cast<U>(a);
      for (U left = static_cast<U>(b); left != 0; left >>= 1) {
        result = (left & 1) != 0 ? result * square : result;
        square *= square;
      }
      return static_cast<T>(result);
    }
  }
};

}  // namespace tensord::functors
