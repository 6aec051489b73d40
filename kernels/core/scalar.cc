#include "kernels/core/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Largest finite value of a real dtype, as a double; 0 for float64, which holds every double.
double LargestFinite(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFloat16:
      return 65504.0;
    case Dtype::kBfloat16:
      return 3.38953138925153547590470800371487866880e38;
    case Dtype::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

template <class T>
absl::Status StoreInteger(const Scalar& scalar, Dtype dtype, void* out) {
  const auto refuse = [&]() -> absl::Status {
    return Error(Reason::kScalarRange)
        .With("value", scalar.ToString())
        .With("dtype", DtypeName(dtype))
        .With("minimum", +std::numeric_limits<T>::min())
        .With("maximum", +std::numeric_limits<T>::max());
  };
  T value{};
  if (const bool* b = std::get_if<bool>(&scalar.value)) {
    value = static_cast<T>(*b);
  } else if (const int64_t* i = std::get_if<int64_t>(&scalar.value)) {
    if (!std::in_range<T>(*i)) return refuse();
    value = static_cast<T>(*i);
  } else if (const uint64_t* u = std::get_if<uint64_t>(&scalar.value)) {
    if (!std::in_range<T>(*u)) return refuse();
    value = static_cast<T>(*u);
  } else {
    return refuse();
  }
  std::memcpy(out, &value, sizeof(T));
  return absl::OkStatus();
}

template <class T>
absl::Status StoreReal(const Scalar& scalar, Dtype dtype, void* out) {
  const double value = scalar.AsDouble();
  const double largest = LargestFinite(dtype);
  T stored{};
  if constexpr (std::is_same_v<T, double>) {
    stored = value;
  } else {
    stored = T(static_cast<float>(value));
    const auto back = static_cast<double>(static_cast<float>(stored));
    if (std::isfinite(value) && !std::isfinite(back)) {
      return Error(Reason::kScalarRange)
          .With("value", scalar.ToString())
          .With("dtype", DtypeName(dtype))
          .With("minimum", -largest)
          .With("maximum", largest);
    }
  }
  std::memcpy(out, &stored, sizeof(T));
  return absl::OkStatus();
}

}  // namespace

DtypeKind Scalar::kind() const {
  if (std::holds_alternative<bool>(value)) return DtypeKind::kBool;
  if (std::holds_alternative<double>(value)) return DtypeKind::kReal;
  return DtypeKind::kSigned;
}

double Scalar::AsDouble() const {
  return std::visit(
      [](auto v) -> double {
        if constexpr (std::is_same_v<decltype(v), std::monostate>) {
          return 0;
        } else {
          return static_cast<double>(v);
        }
      },
      value);
}

int64_t Scalar::AsInt64() const {
  if (const double* d = std::get_if<double>(&value)) {
    if (std::isnan(*d)) return 0;
    if (*d >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
    if (*d < -9223372036854775808.0) return std::numeric_limits<int64_t>::min();
    return static_cast<int64_t>(*d);
  }
  if (const uint64_t* u = std::get_if<uint64_t>(&value)) return static_cast<int64_t>(*u);
  if (const int64_t* i = std::get_if<int64_t>(&value)) return *i;
  if (const bool* b = std::get_if<bool>(&value)) return *b ? 1 : 0;
  return 0;
}

std::string Scalar::ToString() const {
  if (absent()) return "-";
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const int64_t* i = std::get_if<int64_t>(&value)) return StrCat(*i);
  if (const uint64_t* u = std::get_if<uint64_t>(&value)) return StrCat(*u);
  return StrCat(std::get<double>(value));
}

absl::Status StoreScalar(const Scalar& scalar, Dtype dtype, void* out) {
  absl::Status status = absl::OkStatus();
  const bool known = VisitDtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      *static_cast<bool*>(out) =
          std::holds_alternative<double>(scalar.value) ? !(std::get<double>(scalar.value) == 0) : scalar.AsInt64() != 0;
    } else if constexpr (std::is_integral_v<T>) {
      status = StoreInteger<T>(scalar, dtype, out);
    } else {
      status = StoreReal<T>(scalar, dtype, out);
    }
  });
  if (!known) {
    return Error(Reason::kScalarRange).With("value", scalar.ToString()).With("dtype", DtypeName(dtype));
  }
  return status;
}

}  // namespace tensord
