#include "tests/oracle/elementwise.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tensord::oracle {
namespace {

using Real = long double;
using Int = __int128;

constexpr Real kNan = std::numeric_limits<Real>::quiet_NaN();
constexpr Real kSqrt2 = std::numbers::sqrt2_v<Real>;
constexpr Real kPi = std::numbers::pi_v<Real>;

// A function of reals; integers never come (the op takes reals alone).
ElementwiseOracle R(Real (*f)(Real), double ulps, double epsilons = 0) {
  return {[f](const Number& x, Dtype) { return Number::Real(f(x.real)); }, nullptr, ulps, epsilons};
}
// Of integers and of reals, exact.
ElementwiseOracle N(Int (*i)(Int), Real (*r)(Real)) {
  return {
      [i, r](const Number& x, Dtype) { return x.is_real ? Number::Real(r(x.real)) : Number::Integer(i(x.integer)); },
      nullptr, 0};
}
// To a truth value.
ElementwiseOracle T(bool (*f)(const Number&)) {
  return {[f](const Number& x, Dtype) { return Number::Integer(f(x) ? 1 : 0); }, nullptr, 0};
}
ElementwiseOracle R2(Real (*f)(Real, Real), double ulps) {
  return {nullptr, [f](const Number& a, const Number& b, Dtype) { return Number::Real(f(a.real, b.real)); }, ulps};
}
ElementwiseOracle N2(Int (*i)(Int, Int), Real (*r)(Real, Real), double ulps = 0) {
  return {nullptr,
          [i, r](const Number& a, const Number& b, Dtype) {
            return a.is_real ? Number::Real(r(a.real, b.real)) : Number::Integer(i(a.integer, b.integer));
          },
          ulps};
}
ElementwiseOracle T2(bool (*f)(const Number&, const Number&)) {
  return {nullptr, [f](const Number& a, const Number& b, Dtype) { return Number::Integer(f(a, b) ? 1 : 0); }, 0};
}
// Bits: the width and the kind matter.
ElementwiseOracle B2(Int (*f)(Int, Int, int)) {
  return {nullptr,
          [f](const Number& a, const Number& b, Dtype dtype) {
            return Number::Integer(f(a.integer, b.integer, static_cast<int>(ItemSize(dtype)) * 8));
          },
          0};
}

Int Same(Int x) { return x; }
Real SameReal(Real x) { return x; }

Real RoundHalfEven(Real x) { return std::copysign(std::nearbyint(x), x); }

Int FloorDiv(Int a, Int b) {
  if (b == 0) return 0;
  const Int q = a / b;
  return q * b != a && ((a < 0) != (b < 0)) ? q - 1 : q;
}
Int FloorMod(Int a, Int b) { return b == 0 ? 0 : a - FloorDiv(a, b) * b; }
Int TruncMod(Int a, Int b) { return b == 0 ? 0 : a % b; }

// Python's rules: the remainder has the divisor's sign, a zero remainder too; x // inf is 0 or -1.
Real FloorModReal(Real a, Real b) {
  if (b == 0 || std::isnan(a) || std::isnan(b) || std::isinf(a)) return kNan;
  const Real m = std::fmod(a, b);
  if (m == 0) return std::copysign(Real{0}, b);
  return (m < 0) != (b < 0) ? m + b : m;
}
Real FloorDivReal(Real a, Real b) {
  if (b == 0) return a / b;
  if (std::isnan(a) || std::isnan(b) || std::isinf(a)) return kNan;
  const Real q = (a - FloorModReal(a, b)) / b;
  if (std::isinf(b)) return a == 0 || (a < 0) == (b < 0) ? std::copysign(Real{0}, a / b) : Real{-1};
  return q == 0 ? std::copysign(Real{0}, a / b) : std::nearbyint(q);
}

// By squaring, wrapping at 128 bits: the lower bits are right for every width.
Int PowerInt(Int base, Int exponent) {
  if (exponent < 0) {
    if (base == 1) return 1;
    if (base == -1) return exponent % 2 == 0 ? 1 : -1;
    return 0;
  }
  unsigned __int128 result = 1;
  auto factor = static_cast<unsigned __int128>(base);
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0) result *= factor;
    factor *= factor;
  }
  return static_cast<Int>(result);
}

Real MaxReal(Real a, Real b) { return std::isnan(a) || std::isnan(b) ? kNan : std::fmax(a, b); }
Real MinReal(Real a, Real b) { return std::isnan(a) || std::isnan(b) ? kNan : std::fmin(a, b); }
Real LogAddExp(Real a, Real b) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  const Real hi = std::fmax(a, b);
  if (std::isinf(hi)) return hi;
  return hi + std::log1p(std::exp(std::fmin(a, b) - hi));
}
Real Sigmoid(Real x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
Real Softplus(Real x) { return LogAddExp(x, 0); }
Real Gelu(Real x) { return x * std::erfc(-x / kSqrt2) / 2; }
Real GeluTanh(Real x) {
  // 1 + tanh(u) = 2 / (1 + exp(-2u)), without cancellation for negative u.
  const Real u = std::sqrt(2 / kPi) * (x + Real{0.044715L} * x * x * x);
  return x / (1 + std::exp(-2 * u));
}
Real Silu(Real x) { return x * Sigmoid(x); }

Int ShiftLeft(Int a, Int by, int width) { return by < 0 || by >= width ? 0 : a * (Int{1} << by); }
Int ShiftRight(Int a, Int by, int width) {
  return by < 0 || by >= width ? (a < 0 ? -1 : 0) : FloorDiv(a, Int{1} << by);
}

bool Less(const Number& a, const Number& b) { return a.is_real ? a.real < b.real : a.integer < b.integer; }
bool Equal(const Number& a, const Number& b) { return a.is_real ? a.real == b.real : a.integer == b.integer; }
bool Ordered(const Number& a, const Number& b) { return !a.is_real || !(std::isnan(a.real) || std::isnan(b.real)); }

}  // namespace

const std::map<std::string, ElementwiseOracle>& Elementwise() {
  static const auto& table = *new std::map<std::string, ElementwiseOracle>{
      // Unary
      {"abs", N([](Int x) { return x < 0 ? -x : x; }, std::fabs)},
      {"acos", R(std::acos, 3)},
      {"acosh", R(std::acosh, 4)},
      {"asin", R(std::asin, 3)},
      {"asinh", R(std::asinh, 4)},
      {"atan", R(std::atan, 3)},
      {"atanh", R(std::atanh, 4)},
      {"bitwise_invert",
       {[](const Number& x, Dtype d) { return Number::Integer(d == Dtype::kBool ? 1 - x.integer : -1 - x.integer); },
        nullptr, 0}},
      {"ceil", N(Same, std::ceil)},
      {"cos", R(std::cos, 3)},
      {"cosh", R(std::cosh, 3)},
      {"erf", R(std::erf, 3)},
      {"exp", R(std::exp, 3)},
      {"expm1", R(std::expm1, 3)},
      {"floor", N(Same, std::floor)},
      {"gelu", R(Gelu, 4, 4)},
      {"gelu_tanh", R(GeluTanh, 4, 4)},
      {"isfinite", T([](const Number& x) { return !x.is_real || std::isfinite(x.real); })},
      {"isinf", T([](const Number& x) { return x.is_real && std::isinf(x.real); })},
      {"isnan", T([](const Number& x) { return x.is_real && std::isnan(x.real); })},
      {"log", R(std::log, 3)},
      {"log10", R(std::log10, 3)},
      {"log1p", R(std::log1p, 3)},
      {"log2", R(std::log2, 3)},
      {"logical_not", T([](const Number& x) { return !x.IsTrue(); })},
      {"negative", N([](Int x) { return -x; }, [](Real x) { return -x; })},
      {"positive", N(Same, SameReal)},
      {"reciprocal", R([](Real x) { return 1 / x; }, 1)},
      {"relu",
       N([](Int x) { return x > 0 ? x : Int{0}; }, [](Real x) { return std::isnan(x) ? x : (x > 0 ? x : Real{0}); })},
      {"round", N(Same, RoundHalfEven)},
      {"rsqrt", R([](Real x) { return 1 / std::sqrt(x); }, 3)},
      {"sigmoid", R(Sigmoid, 4)},
      {"sign", N([](Int x) { return Int{(x > 0) - (x < 0)}; },
                 [](Real x) { return std::isnan(x) ? x : static_cast<Real>((x > 0) - (x < 0)); })},
      {"signbit", T([](const Number& x) { return std::signbit(x.real); })},
      {"silu", R(Silu, 4)},
      {"sin", R(std::sin, 3)},
      {"sinh", R(std::sinh, 3)},
      {"softplus", R(Softplus, 4)},
      {"sqrt", R(std::sqrt, 1)},
      {"square", N([](Int x) { return x * x; }, [](Real x) { return x * x; })},
      {"tan", R(std::tan, 4)},
      {"tanh", R(std::tanh, 3)},
      {"trunc", N(Same, std::trunc)},

      // Binary
      {"add", N2([](Int a, Int b) { return a + b; }, [](Real a, Real b) { return a + b; })},
      {"atan2", R2(std::atan2, 4)},
      {"bitwise_and", B2([](Int a, Int b, int) { return a & b; })},
      {"bitwise_left_shift", B2(ShiftLeft)},
      {"bitwise_or", B2([](Int a, Int b, int) { return a | b; })},
      {"bitwise_right_shift", B2(ShiftRight)},
      {"bitwise_xor", B2([](Int a, Int b, int) { return a ^ b; })},
      {"copysign", R2(std::copysign, 0)},
      {"divide", R2([](Real a, Real b) { return a / b; }, 1)},
      {"floor_divide", N2(FloorDiv, FloorDivReal, 1)},
      {"fmod", N2(TruncMod, std::fmod)},
      {"hypot", R2(std::hypot, 3)},
      {"logaddexp", R2(LogAddExp, 4)},
      {"maximum", N2([](Int a, Int b) { return a > b ? a : b; }, MaxReal)},
      {"minimum", N2([](Int a, Int b) { return a < b ? a : b; }, MinReal)},
      {"multiply",
       N2([](Int a,
             Int b) { return static_cast<Int>(static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)); },
          [](Real a, Real b) { return a * b; })},
      {"power", N2(PowerInt, std::pow, 4)},
      {"remainder", N2(FloorMod, FloorModReal, 1)},
      {"subtract", N2([](Int a, Int b) { return a - b; }, [](Real a, Real b) { return a - b; })},

      // Compare
      {"equal", T2(Equal)},
      {"greater", T2([](const Number& a, const Number& b) { return Less(b, a); })},
      {"greater_equal", T2([](const Number& a, const Number& b) { return Ordered(a, b) && !Less(a, b); })},
      {"less", T2(Less)},
      {"less_equal", T2([](const Number& a, const Number& b) { return Ordered(a, b) && !Less(b, a); })},
      {"logical_and", T2([](const Number& a, const Number& b) { return a.IsTrue() && b.IsTrue(); })},
      {"logical_or", T2([](const Number& a, const Number& b) { return a.IsTrue() || b.IsTrue(); })},
      {"logical_xor", T2([](const Number& a, const Number& b) { return a.IsTrue() != b.IsTrue(); })},
      {"not_equal", T2([](const Number& a, const Number& b) { return !Equal(a, b); })},
  };
  return table;
}

}  // namespace tensord::oracle
