// The scalar meaning of the Unary rows: one struct a row, named as its enumerator.
//
//   functors::Exp()(1.0f)
//
// T is bool, an integer, float or double as the row's type rule says; float16 and bfloat16 are converted to float
// around a functor. Rows with a bool result return bool. Functors know no tensors, never fail and may be called from
// any thread.
//
// Standard library only: device code includes this file.
#pragma once

#include <limits>

#include "kernels/ops/functors/math.h"

namespace tensord::functors {

struct Abs {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return math::Abs(x);
    } else if constexpr (std::is_signed_v<T>) {
      using U = math::Wrapping<T>;
      return static_cast<T>(x < 0 ? U{0} - static_cast<U>(x) : static_cast<U>(x));
    } else {
      return x;
    }
  }
};

// Rows that are one function of math.h.
#define TENSORD_UNARY_MATH(Name)         \
  struct Name {                          \
    template <class T>                   \
    TENSORD_HD T operator()(T x) const { \
      return math::Name(x);              \
    }                                    \
  };
TENSORD_UNARY_MATH(Acos)
TENSORD_UNARY_MATH(Acosh)
TENSORD_UNARY_MATH(Asin)
TENSORD_UNARY_MATH(Asinh)
TENSORD_UNARY_MATH(Atan)
TENSORD_UNARY_MATH(Atanh)
TENSORD_UNARY_MATH(Cos)
TENSORD_UNARY_MATH(Cosh)
TENSORD_UNARY_MATH(Erf)
TENSORD_UNARY_MATH(Exp)
TENSORD_UNARY_MATH(Expm1)
TENSORD_UNARY_MATH(Log)
TENSORD_UNARY_MATH(Log10)
TENSORD_UNARY_MATH(Log1p)
TENSORD_UNARY_MATH(Log2)
TENSORD_UNARY_MATH(Sin)
TENSORD_UNARY_MATH(Sinh)
TENSORD_UNARY_MATH(Sqrt)
TENSORD_UNARY_MATH(Tan)
TENSORD_UNARY_MATH(Tanh)
#undef TENSORD_UNARY_MATH

struct BitwiseInvert {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (std::is_same_v<T, bool>) {
      return !x;
    } else {
      return static_cast<T>(~x);
    }
  }
};

// Rows that do nothing to integers.
#define TENSORD_UNARY_ROUNDING(Name, function) \
  struct Name {                                \
    template <class T>                         \
    TENSORD_HD T operator()(T x) const {       \
      if constexpr (math::kIsFloat<T>) {       \
        return math::function(x);              \
      } else {                                 \
        return x;                              \
      }                                        \
    }                                          \
  };
TENSORD_UNARY_ROUNDING(Ceil, Ceil)
TENSORD_UNARY_ROUNDING(Floor, Floor)
TENSORD_UNARY_ROUNDING(Round, Rint)
TENSORD_UNARY_ROUNDING(Trunc, Trunc)
#undef TENSORD_UNARY_ROUNDING

struct Gelu {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return T(0.5) * x * (T(1) + math::Erf(x * T(0.70710678118654752440)));
  }
};

struct GeluTanh {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + math::Tanh(inner));
  }
};

struct IsFinite {
  template <class T>
  TENSORD_HD bool operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return math::Abs(x) <= std::numeric_limits<T>::max();
    } else {
      return true;
    }
  }
};

struct IsInf {
  template <class T>
  TENSORD_HD bool operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return math::Abs(x) == std::numeric_limits<T>::infinity();
    } else {
      return false;
    }
  }
};

struct IsNan {
  template <class T>
  TENSORD_HD bool operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return x != x;
    } else {
      return false;
    }
  }
};

struct LogicalNot {
  template <class T>
  TENSORD_HD bool operator()(T x) const {
    return x == T(0);
  }
};

struct Negative {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return -x;
    } else {
      using U = math::Wrapping<T>;
      return static_cast<T>(U{0} - static_cast<U>(x));
    }
  }
};

struct Positive {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return x;
  }
};

struct Reciprocal {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return T(1) / x;
  }
};

// +0 for -0.
struct Relu {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return x > T(0) || x != x ? x : T(0);
    } else {
      return x > T(0) ? x : T(0);
    }
  }
};

struct Rsqrt {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return T(1) / math::Sqrt(x);
  }
};

// By exp(-|x|), which never overflows, so that the lower tail keeps its digits down to the subnormals.
struct Sigmoid {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    const T e = math::Exp(-math::Abs(x));
    return (x < T(0) ? e : T(1)) / (T(1) + e);
  }
};

// 0 for -0.
struct Sign {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      const T sign = x < T(0) ? T(-1) : T(0);
      return x != x ? x : (x > T(0) ? T(1) : sign);
    } else if constexpr (std::is_signed_v<T>) {
      return static_cast<T>((x > T(0)) - (x < T(0)));
    } else {
      return static_cast<T>(x != T(0));
    }
  }
};

// By the magnitude 1 that takes x's sign: the bit itself, for NaN too.
struct Signbit {
  template <class T>
  TENSORD_HD bool operator()(T x) const {
    return math::Copysign(T(1), x) < T(0);
  }
};

struct Silu {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return x * Sigmoid()(x);
  }
};

// max(x, 0) + log1p(exp(-|x|)): no overflow, exact in the lower tail.
struct Softplus {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    return Relu()(x) + math::Log1p(math::Exp(-math::Abs(x)));
  }
};

struct Square {
  template <class T>
  TENSORD_HD T operator()(T x) const {
    if constexpr (math::kIsFloat<T>) {
      return x * x;
    } else {
      using U = math::Wrapping<T>;
      return static_cast<T>(static_cast<U>(x) * static_cast<U>(x));
    }
  }
};

}  // namespace tensord::functors
