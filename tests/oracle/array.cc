#include "tests/oracle/array.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/core/text.h"

namespace tensord::oracle {
namespace {

// What a binary format of `digits` bits of significand and exponents from `lowest` to `highest` can say.
struct Format {
  int digits;
  int lowest;   // exponent of the smallest subnormal: 2^lowest
  int highest;  // the largest finite value is below 2^highest
};

Format FormatOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return {11, -24, 16};
    case Dtype::kBfloat16:
      return {8, -133, 128};
    case Dtype::kFloat32:
      return {24, -149, 128};
    default:
      return {53, -1074, 1024};
  }
}

// The unit of the last place of `value` in the format.
long double UnitOf(long double value, const Format& format) {
  if (value == 0) return std::ldexp(1.0L, format.lowest);
  int exponent = 0;
  std::frexp(value, &exponent);
  return std::ldexp(1.0L, std::max(exponent - format.digits, format.lowest));
}

// Nearest even, done on the number itself rather than on bits: a way of its own.
long double RoundTo(long double value, const Format& format) {
  if (value == 0 || !std::isfinite(value)) return value;
  const long double unit = UnitOf(value, format);
  const long double rounded = std::nearbyint(value / unit) * unit;
  if (std::fabs(rounded) >= std::ldexp(1.0L, format.highest)) {
    return std::copysign(std::numeric_limits<long double>::infinity(), value);
  }
  return std::copysign(rounded, value);
}

uint16_t SixteenBits(long double value, Dtype dtype) {
  const bool half = dtype == Dtype::kFloat16;
  const int fraction_bits = half ? 10 : 7;
  const int bias = half ? 15 : 127;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto exponent_ones = static_cast<uint16_t>(half ? 0x7c00 : 0x7f80);
  if (std::isnan(value)) return static_cast<uint16_t>(exponent_ones | (1 << (fraction_bits - 1)));
  if (std::isinf(value)) return sign | exponent_ones;
  const long double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  int exponent = 0;
  std::frexp(magnitude, &exponent);
  const int biased = std::max(exponent - 1 + bias, 0);
  const int scale = (biased == 0 ? 1 : biased) - bias - fraction_bits;
  const auto significand = static_cast<uint32_t>(std::ldexp(magnitude, -scale));
  const uint32_t fraction = biased == 0 ? significand : significand - (1u << fraction_bits);
  return static_cast<uint16_t>(sign | static_cast<uint32_t>(biased << fraction_bits) | fraction);
}

long double FromSixteenBits(uint16_t bits, Dtype dtype) {
  const bool half = dtype == Dtype::kFloat16;
  const int fraction_bits = half ? 10 : 7;
  const int bias = half ? 15 : 127;
  const int exponent = (bits & 0x7fff) >> fraction_bits;
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const long double sign = (bits & 0x8000) != 0 ? -1.0L : 1.0L;
  if (exponent == 2 * bias + 1) {
    if (fraction != 0) return std::numeric_limits<long double>::quiet_NaN();
    return sign * std::numeric_limits<long double>::infinity();
  }
  if (exponent == 0)
    return std::copysign(std::ldexp(static_cast<long double>(fraction), 1 - bias - fraction_bits), sign);
  return sign * std::ldexp(static_cast<long double>(fraction + (1 << fraction_bits)), exponent - bias - fraction_bits);
}

template <class T>
T ToInteger(const Number& value) {
  if (!value.is_real) return static_cast<T>(value.integer);  // wraps
  if (std::isnan(value.real)) return 0;
  if (value.real <= static_cast<long double>(std::numeric_limits<T>::min())) return std::numeric_limits<T>::min();
  if (value.real >= static_cast<long double>(std::numeric_limits<T>::max())) return std::numeric_limits<T>::max();
  return static_cast<T>(std::trunc(value.real));
}

std::string Text(const Number& n) {
  if (n.is_real) {
    char buffer[64];
    std::snprintf(buffer, sizeof(buffer), "%.21Lg", n.real);
    return buffer;
  }
  const bool negative = n.integer < 0;
  auto magnitude = negative ? -static_cast<unsigned __int128>(n.integer) : static_cast<unsigned __int128>(n.integer);
  std::string digits;
  do {
    digits.insert(digits.begin(), static_cast<char>('0' + static_cast<int>(magnitude % 10)));
    magnitude /= 10;
  } while (magnitude != 0);
  return negative ? "-" + digits : digits;
}

std::string IndexText(int64_t flat, const Dims& shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return StrCat("[", StrJoin(index, ","), "]");
}

}  // namespace

void Store(Dtype dtype, const Number& value, void* out) {
  VisitDtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      *static_cast<unsigned char*>(out) = value.IsTrue() ? 1 : 0;
    } else if constexpr (std::is_integral_v<T>) {
      const T stored = ToInteger<T>(value);
      std::memcpy(out, &stored, sizeof(T));
    } else if constexpr (sizeof(T) == 2) {
      const uint16_t bits = SixteenBits(RoundTo(value.AsReal(), FormatOf(dtype)), dtype);
      std::memcpy(out, &bits, sizeof(bits));
    } else {
      const auto stored = static_cast<T>(RoundTo(value.AsReal(), FormatOf(dtype)));
      std::memcpy(out, &stored, sizeof(T));
    }
  });
}

Number Load(Dtype dtype, const void* element) {
  Number number;
  VisitDtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      number = Number::Integer(*static_cast<const unsigned char*>(element));
    } else if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) {
      uint16_t bits = 0;
      std::memcpy(&bits, element, sizeof(bits));
      number = Number::Real(FromSixteenBits(bits, dtype));
    } else {
      T stored{};
      std::memcpy(&stored, element, sizeof(T));
      if constexpr (std::is_integral_v<T>) {
        number = Number::Integer(stored);
      } else {
        number = Number::Real(static_cast<long double>(stored));
      }
    }
  });
  return number;
}

Array Array::Zeros(Dtype dtype, const Dims& shape) {
  Array array{{dtype, shape}, {}};
  array.bytes.assign(static_cast<size_t>(array.type.bytes()), '\0');
  return array;
}

Array Array::Of(Dtype dtype, const Dims& shape, const std::vector<Number>& elements) {
  Array array = Zeros(dtype, shape);
  for (size_t i = 0; i < elements.size(); ++i) array.Set(static_cast<int64_t>(i), elements[i]);
  return array;
}

Number Array::At(int64_t index) const {
  return Load(type.dtype, bytes.data() + static_cast<size_t>(index) * ItemSize(type.dtype));
}

void Array::Set(int64_t index, const Number& value) {
  Store(type.dtype, value, bytes.data() + static_cast<size_t>(index) * ItemSize(type.dtype));
}

std::vector<Number> Array::Elements() const {
  std::vector<Number> elements;
  for (int64_t i = 0; i < size(); ++i) elements.push_back(At(i));
  return elements;
}

double Epsilon(Dtype dtype) { return std::ldexp(1.0, 1 - FormatOf(dtype).digits); }

std::vector<Number> Interesting(Dtype dtype) {
  std::vector<Number> values;
  if (dtype == Dtype::kBool) return {Number::Integer(0), Number::Integer(1)};
  if (IsInteger(dtype)) {
    const int bits = static_cast<int>(ItemSize(dtype)) * 8;
    const bool is_signed = KindOf(dtype) == DtypeKind::kSigned;
    const __int128 one = 1;
    const __int128 lowest = is_signed ? -(one << (bits - 1)) : 0;
    const __int128 highest = is_signed ? (one << (bits - 1)) - 1 : (one << bits) - 1;
    for (const int v : {0, 1, 2, 3, 5, 7, 10, 63}) values.push_back(Number::Integer(v));
    if (is_signed) {
      for (const int v : {-1, -2, -3, -7}) values.push_back(Number::Integer(v));
    }
    for (const __int128 v : {lowest, lowest + 1, highest - 1, highest}) values.push_back(Number::Integer(v));
    return values;
  }
  const Format format = FormatOf(dtype);
  const long double infinity = std::numeric_limits<long double>::infinity();
  for (const long double v :
       {0.0L, -0.0L, 1.0L, -1.0L, 0.5L, -0.5L, 1.5L, 2.5L, -2.5L, 3.0L, -7.0L, 0.1L, 100.0L, -3.75L}) {
    values.push_back(Number::Real(v));
  }
  const long double smallest = std::ldexp(1.0L, format.lowest);
  const long double normal = std::ldexp(1.0L, format.lowest + format.digits - 1);
  const long double largest = std::ldexp(2.0L - std::ldexp(1.0L, 1 - format.digits), format.highest - 1);
  for (const long double v : {smallest, -smallest, normal, largest, -largest, infinity, -infinity}) {
    values.push_back(Number::Real(v));
  }
  values.push_back(Number::Real(std::numeric_limits<long double>::quiet_NaN()));
  return values;
}

Array Sample(Dtype dtype, const Dims& shape, uint64_t seed, bool extremes) {
  Array array = Array::Zeros(dtype, shape);
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(dtype));
  const std::vector<Number> interesting = Interesting(dtype);
  for (int64_t i = 0; i < array.size(); ++i) {
    const uint64_t draw = random();
    Number value;
    if (dtype == Dtype::kBool) {
      value = Number::Integer(static_cast<int>(draw % 2));
    } else if (extremes && draw % 3 == 0) {
      value = interesting[(draw >> 8) % interesting.size()];
    } else if (IsInteger(dtype)) {
      const auto small = static_cast<__int128>((draw >> 8) % 41);
      value = Number::Integer(KindOf(dtype) == DtypeKind::kSigned ? small - 20 : small);
    } else {
      value = Number::Real((static_cast<long double>(draw >> 40) / (1 << 24) - 0.5L) * 8);
    }
    array.Set(i, value);
  }
  return array;
}

std::string Compare(const Array& got, const Array& expected, double ulps, double absolute) {
  if (!(got.type == expected.type)) return StrCat("got ", got.type.ToString(), ", expected ", expected.type.ToString());
  if (got.bytes.size() != expected.bytes.size()) {
    return StrCat("got ", got.bytes.size(), " bytes, expected ", expected.bytes.size());
  }
  const Format format = FormatOf(expected.type.dtype);
  for (int64_t i = 0; i < expected.size(); ++i) {
    const Number g = got.At(i);
    const Number e = expected.At(i);
    std::string why;
    if (!e.is_real) {
      if (g.integer != e.integer) why = "not equal";
    } else if (std::isnan(e.real) || std::isnan(g.real)) {
      if (std::isnan(e.real) != std::isnan(g.real)) why = "NaN on one side";
    } else if (std::isinf(e.real) || std::isinf(g.real)) {
      if (e.real != g.real) why = "infinite on one side";
    } else if (const long double off = std::fabs(g.real - e.real); off > absolute) {
      const long double units = off / UnitOf(e.real, format);
      if (units > ulps) why = StrCat("off by ", static_cast<double>(units), " ulp");
    }
    if (!why.empty()) {
      return StrCat("element ", IndexText(i, expected.type.shape), ": got ", Text(g), ", expected ", Text(e), " (", why,
                    ")");
    }
  }
  return "";
}

}  // namespace tensord::oracle
