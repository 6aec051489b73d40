#include "tests/unit/cpu_elementwise/reference.h"

#include <cmath>
#include <map>

namespace tensord::testing {
namespace {

using Real1 = std::function<Expected(Dtype, long double)>;
using Real2 = std::function<Expected(Dtype, long double, long double)>;
using Integer = std::function<int128(Dtype, int128, int128)>;

struct Row {
  Real2 real;
  Integer integer;
};

bool Bool(bool b) { return b; }

// Rounding unit of the arithmetic: float16 and bfloat16 are computed in float32.
long double Unit(Dtype dtype) { return dtype == Dtype::kFloat64 ? 0x1p-53L : 0x1p-24L; }
Dtype Arithmetic(Dtype dtype) { return dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32; }

// f in the arithmetic's own type, where IEEE 754 says the one result.
template <class F>
Real2 Exact(F f, bool ignore_zero_sign = false) {
  return [f, ignore_zero_sign](Dtype dtype, long double a, long double b) {
    Expected e;
    e.ignore_zero_sign = ignore_zero_sign;
    e.exact = Number::Real(dtype == Dtype::kFloat64
                               ? static_cast<long double>(f(static_cast<double>(a), static_cast<double>(b)))
                               : static_cast<long double>(f(static_cast<float>(a), static_cast<float>(b))));
    return e;
  };
}

// f in long double; the op may be `ulps` of its arithmetic off, and `slack` (of the operands) more.
template <class F, class S>
Real2 Math(F f, double ulps, S slack) {
  return [f, ulps, slack](Dtype dtype, long double a, long double b) {
    Expected e;
    e.exact = Number::Real(f(a, b));
    e.ulps = IsHalfDtype(dtype) ? 0.51 : ulps;
    e.slack = slack(dtype, a, b);
    if (std::isnan(e.slack) || std::isinf(e.slack)) e.slack = 0;
    return e;
  };
}
template <class F>
Real2 Math(F f, double ulps = 2) {
  return Math(f, ulps, [](Dtype, long double, long double) { return 0.0L; });
}

template <class F>
Real2 Truth(F f) {
  return [f](Dtype, long double a, long double b) {
    Expected e;
    e.exact = Number::Of(f(a, b) ? 1 : 0);
    return e;
  };
}

int Width(Dtype dtype) { return static_cast<int>(ItemSize(dtype)) * 8; }

// Integer arithmetic modulo 2^128; the caller keeps the low bits.
int128 Wrap(unsigned __int128 v) { return static_cast<int128>(v); }
unsigned __int128 U(int128 v) { return static_cast<unsigned __int128>(v); }

int128 FloorQuotient(int128 a, int128 b) {
  if (b == 0) return 0;
  int128 q = a / b;
  if (q * b != a && (a < 0) != (b < 0)) q -= 1;
  return q;
}

int128 IntegerPower(int128 a, int128 b) {
  if (b < 0) {
    if (a == 1) return 1;
    if (a == -1) return b % 2 == 0 ? 1 : -1;
    return 0;
  }
  unsigned __int128 result = 1;
  unsigned __int128 factor = U(a);
  for (int bit = 0; bit < 64; ++bit) {
    if (((U(b) >> bit) & 1) != 0) result *= factor;
    factor *= factor;
  }
  return Wrap(result);
}

// Python's float divmod.
template <class T>
void PythonDivMod(T a, T b, T& quotient, T& rest) {
  rest = std::fmod(a, b);
  T div = (a - rest) / b;
  if (rest != 0) {
    if ((b < 0) != (rest < 0)) {
      rest += b;
      div -= 1;
    }
  } else {
    rest = std::copysign(T(0), b);
  }
  if (div != 0) {
    quotient = std::floor(div);
    if (div - quotient > T(0.5)) quotient += 1;
  } else {
    quotient = std::copysign(T(0), a / b);
  }
}

struct PyFloor {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return a / b;
    T q;
    T r;
    PythonDivMod(a, b, q, r);
    return q;
  }
};
struct PyMod {
  template <class T>
  T operator()(T a, T b) const {
    if (b == 0) return std::numeric_limits<T>::quiet_NaN();
    T q;
    T r;
    PythonDivMod(a, b, q, r);
    return r;
  }
};

long double Sigmoid(long double x) { return 1 / (1 + std::exp(-x)); }

const std::map<Op, Row>& Table() {
  static const auto* const table = [] {
    auto* t = new std::map<Op, Row>;
    const auto math = [t](Op op, long double (*f)(long double)) {
      (*t)[op].real = Math([f](long double a, long double) { return f(a); });
    };
    const auto whole = [t](Op op, auto f) {
      (*t)[op] = {Exact([f](auto a, auto) { return f(a); }), [](Dtype, int128 a, int128) { return a; }};
    };
    math(Op::kAcos, std::acos);
    math(Op::kAcosh, std::acosh);
    math(Op::kAsin, std::asin);
    math(Op::kAsinh, std::asinh);
    math(Op::kAtan, std::atan);
    math(Op::kAtanh, std::atanh);
    math(Op::kCos, std::cos);
    math(Op::kCosh, std::cosh);
    math(Op::kErf, std::erf);
    math(Op::kExp, std::exp);
    math(Op::kExpm1, std::expm1);
    math(Op::kLog, std::log);
    math(Op::kLog10, std::log10);
    math(Op::kLog1p, std::log1p);
    math(Op::kLog2, std::log2);
    math(Op::kSin, std::sin);
    math(Op::kSinh, std::sinh);
    math(Op::kTan, std::tan);
    math(Op::kTanh, std::tanh);

    whole(Op::kCeil, [](auto a) { return std::ceil(a); });
    whole(Op::kFloor, [](auto a) { return std::floor(a); });
    whole(Op::kRound, [](auto a) { return std::nearbyint(a); });
    whole(Op::kTrunc, [](auto a) { return std::trunc(a); });
    whole(Op::kPositive, [](auto a) { return a; });
    (*t)[Op::kAbs] = {Exact([](auto a, auto) { return std::fabs(a); }),
                      [](Dtype, int128 a, int128) { return a < 0 ? -a : a; }};
    (*t)[Op::kNegative] = {Exact([](auto a, auto) { return -a; }), [](Dtype, int128 a, int128) { return -a; }};
    (*t)[Op::kRelu] = {Exact([](auto a, auto) { return a <= 0 ? decltype(a)(0) : a; }),
                       [](Dtype, int128 a, int128) { return a < 0 ? 0 : a; }};
    (*t)[Op::kSign] = {Exact([](auto a, auto) {
                         return std::isnan(a) ? a : decltype(a)(a > 0 ? 1 : a < 0 ? -1 : 0);
                       }),
                       [](Dtype, int128 a, int128) -> int128 { return a > 0   ? 1
                                                                      : a < 0 ? -1
                                                                              : 0; }};
    (*t)[Op::kSquare] = {Exact([](auto a, auto) { return a * a; }),
                         [](Dtype, int128 a, int128) { return Wrap(U(a) * U(a)); }};
    (*t)[Op::kSqrt].real = Exact([](auto a, auto) { return std::sqrt(a); });
    (*t)[Op::kReciprocal].real = Exact([](auto a, auto) { return 1 / a; });
    (*t)[Op::kRsqrt].real = Math([](long double a, long double) { return 1 / std::sqrt(a); });
    (*t)[Op::kSigmoid].real = Math([](long double a, long double) { return Sigmoid(a); }, 3);
    (*t)[Op::kSilu].real = Math([](long double a, long double) { return a * Sigmoid(a); }, 4,
                                [](Dtype d, long double a, long double) {
                                  return std::fabs(a) * UlpOf(Arithmetic(d), 0);  // where the sigmoid is subnormal
                                });
    (*t)[Op::kSoftplus].real = Math(
        [](long double a, long double) { return a > 0 ? a + std::log1p(std::exp(-a)) : std::log1p(std::exp(a)); }, 3);
    const auto cancels = [](Dtype d, long double a, long double) { return 4 * Unit(d) * std::fabs(a); };
    (*t)[Op::kGelu].real = Math(
        [](long double a, long double) { return a * (1 + std::erf(a * 0.70710678118654752440084L)) / 2; }, 4, cancels);
    (*t)[Op::kGeluTanh].real = Math(
        [](long double a, long double) {
          return a * (1 + std::tanh(0.79788456080286535587989L * (a + 0.044715L * a * a * a))) / 2;
        },
        4, cancels);
    (*t)[Op::kBitwiseInvert].integer = [](Dtype d, int128 a, int128) { return d == Dtype::kBool ? 1 - a : -1 - a; };
    (*t)[Op::kIsFinite] = {Truth([](long double a, long double) { return Bool(std::isfinite(a)); }),
                           [](Dtype, int128, int128) -> int128 { return 1; }};
    (*t)[Op::kIsInf] = {Truth([](long double a, long double) { return Bool(std::isinf(a)); }),
                        [](Dtype, int128, int128) -> int128 { return 0; }};
    (*t)[Op::kIsNan] = {Truth([](long double a, long double) { return Bool(std::isnan(a)); }),
                        [](Dtype, int128, int128) -> int128 { return 0; }};
    (*t)[Op::kLogicalNot] = {Truth([](long double a, long double) { return a == 0; }),
                             [](Dtype, int128 a, int128) -> int128 { return a == 0; }};
    (*t)[Op::kSignbit].real = [](Dtype, long double a, long double) {
      Expected e;
      e.exact = Number::Of(std::signbit(a) ? 1 : 0);
      e.any = std::isnan(a);  // a Number has lost NaN's sign
      return e;
    };

    (*t)[Op::kAdd] = {Exact([](auto a, auto b) { return a + b; }), [](Dtype, int128 a, int128 b) { return a + b; }};
    (*t)[Op::kSubtract] = {Exact([](auto a, auto b) { return a - b; }),
                           [](Dtype, int128 a, int128 b) { return a - b; }};
    (*t)[Op::kMultiply] = {Exact([](auto a, auto b) { return a * b; }),
                           [](Dtype, int128 a, int128 b) { return Wrap(U(a) * U(b)); }};
    (*t)[Op::kDivide].real = Exact([](auto a, auto b) { return a / b; });
    (*t)[Op::kFloorDivide] = {Exact(PyFloor()), [](Dtype, int128 a, int128 b) { return FloorQuotient(a, b); }};
    (*t)[Op::kRemainder] = {Exact(PyMod()),
                            [](Dtype, int128 a, int128 b) { return b == 0 ? 0 : a - FloorQuotient(a, b) * b; }};
    (*t)[Op::kFmod] = {Exact([](auto a, auto b) { return std::fmod(a, b); }),
                       [](Dtype, int128 a, int128 b) { return b == 0 ? 0 : a % b; }};
    (*t)[Op::kMaximum] = {
        Exact([](auto a, auto b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmax(a, b); }, true),
        [](Dtype, int128 a, int128 b) { return a > b ? a : b; }};
    (*t)[Op::kMinimum] = {
        Exact([](auto a, auto b) { return std::isnan(a) || std::isnan(b) ? a + b : std::fmin(a, b); }, true),
        [](Dtype, int128 a, int128 b) { return a < b ? a : b; }};
    (*t)[Op::kPower] = {Math([](long double a, long double b) { return std::pow(a, b); }),
                        [](Dtype, int128 a, int128 b) { return IntegerPower(a, b); }};
    (*t)[Op::kAtan2].real = Math([](long double a, long double b) { return std::atan2(a, b); });
    (*t)[Op::kHypot].real = Math([](long double a, long double b) { return std::hypot(a, b); });
    (*t)[Op::kLogAddExp].real = Math(
        [](long double a, long double b) {
          if (std::isnan(a) || std::isnan(b)) return a + b;
          if (a == b) return a + std::log(2.0L);
          return std::fmax(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
        },
        3,
        [](Dtype d, long double a, long double b) {
          return 4 * Unit(d) * (1 + std::fmin(std::fabs(a), std::fabs(b)));
        });
    (*t)[Op::kCopysign].real = [](Dtype, long double a, long double b) {
      Expected e;
      e.exact = Number::Real(std::copysign(a, b));
      e.any = std::isnan(b);
      return e;
    };
    (*t)[Op::kBitwiseAnd].integer = [](Dtype, int128 a, int128 b) { return a & b; };
    (*t)[Op::kBitwiseOr].integer = [](Dtype, int128 a, int128 b) { return a | b; };
    (*t)[Op::kBitwiseXor].integer = [](Dtype, int128 a, int128 b) { return a ^ b; };
    (*t)[Op::kBitwiseLeftShift].integer = [](Dtype d, int128 a, int128 b) -> int128 {
      return b < 0 || b >= Width(d) ? 0 : Wrap(U(a) << static_cast<int>(b));
    };
    (*t)[Op::kBitwiseRightShift].integer = [](Dtype d, int128 a, int128 b) -> int128 {
      if (b < 0 || b >= Width(d)) return a < 0 ? -1 : 0;
      return FloorQuotient(a, int128{1} << static_cast<int>(b));
    };
    (*t)[Op::kEqual] = {Truth([](long double a, long double b) { return a == b; }),
                        [](Dtype, int128 a, int128 b) -> int128 { return a == b; }};
    (*t)[Op::kNotEqual] = {Truth([](long double a, long double b) { return !(a == b); }),
                           [](Dtype, int128 a, int128 b) -> int128 { return a != b; }};
    (*t)[Op::kGreater] = {Truth([](long double a, long double b) { return a > b; }),
                          [](Dtype, int128 a, int128 b) -> int128 { return a > b; }};
    (*t)[Op::kGreaterEqual] = {Truth([](long double a, long double b) { return a >= b; }),
                               [](Dtype, int128 a, int128 b) -> int128 { return a >= b; }};
    (*t)[Op::kLess] = {Truth([](long double a, long double b) { return a < b; }),
                       [](Dtype, int128 a, int128 b) -> int128 { return a < b; }};
    (*t)[Op::kLessEqual] = {Truth([](long double a, long double b) { return a <= b; }),
                            [](Dtype, int128 a, int128 b) -> int128 { return a <= b; }};
    const auto truth = [](long double a) { return !(a == 0); };
    (*t)[Op::kLogicalAnd] = {Truth([truth](long double a, long double b) { return truth(a) && truth(b); }),
                             [](Dtype, int128 a, int128 b) -> int128 { return a != 0 && b != 0; }};
    (*t)[Op::kLogicalOr] = {Truth([truth](long double a, long double b) { return truth(a) || truth(b); }),
                            [](Dtype, int128 a, int128 b) -> int128 { return a != 0 || b != 0; }};
    (*t)[Op::kLogicalXor] = {Truth([truth](long double a, long double b) { return truth(a) != truth(b); }),
                             [](Dtype, int128 a, int128 b) -> int128 { return (a != 0) != (b != 0); }};
    return t;
  }();
  return *table;
}

}  // namespace

bool HasReference(Op op) { return Table().contains(op); }

Expected Reference(Op op, Dtype dtype, Number a, Number b) {
  const Row& row = Table().at(op);
  if (IsReal(dtype)) return row.real(dtype, a.value, b.value);
  Expected e;
  e.exact = Number::Of(row.integer(dtype, a.integer, b.integer));
  return e;
}

bool Takes(Op op, Dtype dtype) {
  switch (RowOf(op).types) {
    case TypeRule::kInteger:
      return IsInteger(dtype);
    case TypeRule::kBoolOrInteger:
      return IsInteger(dtype) || dtype == Dtype::kBool;
    case TypeRule::kReal:
    case TypeRule::kRealToBool:
      return IsReal(dtype);
    case TypeRule::kNumeric:
    case TypeRule::kNumericToBool:
      return dtype != Dtype::kBool;
    default:
      return true;
  }
}

bool MakesBool(Op op) {
  const TypeRule rule = RowOf(op).types;
  return rule == TypeRule::kAnyToBool || rule == TypeRule::kNumericToBool || rule == TypeRule::kRealToBool;
}

bool Agrees(Dtype dtype, Number got, const Expected& expected) {
  if (expected.any) return true;
  alignas(8) std::byte bytes[8];
  Write(dtype, expected.exact, bytes);
  const Number nearest = Read(dtype, bytes);
  if (!IsReal(dtype)) return got.integer == nearest.integer;
  if (Same(dtype, got, nearest, 0)) return true;
  if (expected.ignore_zero_sign && got.value == 0 && nearest.value == 0) return true;
  if (expected.ulps == 0) return false;
  // A zero that is no limit has its sign; one that is too small to write may have either.
  if (expected.exact.value == 0 && got.value == 0) return false;
  return Same(dtype, got, nearest, expected.ulps) || Same(dtype, got, expected.exact, expected.ulps) ||
         std::fabs(got.value - expected.exact.value) <=
             expected.slack + expected.ulps * UlpOf(dtype, expected.exact.value);
}

}  // namespace tensord::testing
