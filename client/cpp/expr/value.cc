#include "client/cpp/expr/value.h"

#include <cmath>

#include "client/cpp/expr/elements.h"
#include "kernels/core/text.h"

namespace tensord::expr {
namespace {

using Wide = __int128;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

Wide ToWide(const Value& value) {
  if (const bool* b = value.As<bool>()) return *b ? 1 : 0;
  if (const int64_t* i = value.As<int64_t>()) return *i;
  if (const uint64_t* u = value.As<uint64_t>()) return *u;
  return 0;
}

double ToReal(const Value& value) {
  if (const double* d = value.As<double>()) return *d;
  return static_cast<double>(ToWide(value));
}

constexpr std::string_view kTooLarge = "the integer leaves the 64 bits that a number here has";

Arithmetic FromWide(Wide value) {
  if (value < INT64_MIN || value > static_cast<Wide>(UINT64_MAX)) return {std::nullopt, std::string(kTooLarge)};
  if (value > INT64_MAX) return {Value(static_cast<uint64_t>(value)), ""};
  return {Value(static_cast<int64_t>(value)), ""};
}

Arithmetic Problem(std::string_view text) { return {std::nullopt, std::string(text)}; }

Arithmetic IntegerPower(Wide base, Wide exponent) {
  Wide result = 1;
  for (Wide i = 0; i < exponent; ++i) {
    if (base == 0 || base == 1) return FromWide(exponent == 0 ? 1 : base);
    if (base == -1) return FromWide(exponent % 2 == 0 ? 1 : -1);
    result *= base;
    if (result < INT64_MIN || result > static_cast<Wide>(UINT64_MAX)) return Problem(kTooLarge);
  }
  return FromWide(result);
}

Arithmetic ComputeIntegers(std::string_view op, Wide a, Wide b) {
  if (op == "+") return FromWide(a + b);
  if (op == "-") return FromWide(a - b);
  if (op == "*") return FromWide(a * b);  // 65 bits times 65 bits may wrap at 128, seen below
  if (op == "&") return FromWide(a & b);
  if (op == "|") return FromWide(a | b);
  if (op == "^") return FromWide(a ^ b);
  if (op == "**") return IntegerPower(a, b);
  if (op == "<<" || op == ">>") {
    if (b < 0) return Problem("negative shift");
    if (op == ">>") return FromWide(b > 100 ? (a < 0 ? -1 : 0) : a >> static_cast<int>(b));
    if (a == 0) return FromWide(0);
    return b > 63 ? Problem(kTooLarge) : FromWide(a * (static_cast<Wide>(1) << static_cast<int>(b)));
  }
  if (b == 0) return Problem("division by zero");
  Wide quotient = a / b;
  Wide remainder = a % b;
  if (remainder != 0 && (remainder < 0) != (b < 0)) {
    remainder += b;
    --quotient;
  }
  return FromWide(op == "//" ? quotient : remainder);
}

Arithmetic ComputeReals(std::string_view op, double a, double b) {
  if (op == "+") return {Value(a + b), ""};
  if (op == "-") return {Value(a - b), ""};
  if (op == "*") return {Value(a * b), ""};
  if (op == "**") {
    if (a == 0 && b < 0) return Problem("0 to a negative power");
    if (a < 0 && b != std::floor(b) && std::isfinite(a) && std::isfinite(b))
      return Problem("the result is complex, which is not offered");
    return {Value(std::pow(a, b)), ""};
  }
  if (op == "&" || op == "|" || op == "^" || op == "<<" || op == ">>") return Problem(StrCat("no ", op, " for reals"));
  if (b == 0) return Problem("division by zero");
  if (op == "/") return {Value(a / b), ""};
  double remainder = std::fmod(a, b);
  if (remainder != 0 && (remainder < 0) != (b < 0)) remainder += b;
  if (op == "%") return {Value(remainder == 0 ? std::copysign(0.0, b) : remainder), ""};
  return {Value(std::floor((a - remainder) / b + 0.5)), ""};
}

}  // namespace

std::string Value::KindText() const {
  return std::visit(
      Overloaded{[](const None&) { return "None"; }, [](bool) { return "a bool"; },
                 [](int64_t) { return "an integer"; }, [](uint64_t) { return "an integer"; },
                 [](double) { return "a real"; }, [](const std::string&) { return "a string"; },
                 [](Dtype) { return "a dtype"; }, [](const DeviceValue&) { return "a device"; },
                 [](const ListPtr& l) { return l->tuple ? "a tuple" : "a list"; },
                 [](const SliceValue&) { return "a slice"; }, [](const Ellipsis&) { return "an ellipsis"; },
                 [](const TensorPtr&) { return "a tensor"; }, [](const LayersPtr&) { return "a layer"; },
                 [](const ModelPtr& m) { return m->path.empty() ? "a model" : "a layer of a model"; },
                 [](const Namespace&) { return "a module"; }, [](const Function&) { return "a function"; }},
      v);
}

Value MakeSizes(absl::Span<const int64_t> sizes) {
  return MakeList(std::vector<Value>(sizes.begin(), sizes.end()), /*tuple=*/true);
}

Scalar ToScalar(const Value& value) {
  Scalar scalar;
  if (const bool* b = value.As<bool>()) scalar.value = *b;
  if (const int64_t* i = value.As<int64_t>()) scalar.value = *i;
  if (const uint64_t* u = value.As<uint64_t>()) scalar.value = *u;
  if (const double* d = value.As<double>()) scalar.value = *d;
  return scalar;
}

Value FromScalar(const Scalar& scalar) {
  return std::visit(Overloaded{[](std::monostate) { return Value(); }, [](auto number) { return Value(number); }},
                    scalar.value);
}

std::optional<int64_t> ToInteger(const Value& value) {
  if (const int64_t* i = value.As<int64_t>()) return *i;
  return std::nullopt;
}

std::string DeviceText(const DeviceId& device) {
  if (device.kind == DeviceKind::kCpu) return "device(type='cpu')";
  return StrCat("device(type='", DeviceKindName(device.kind), "', index=", device.index, ")");
}

std::string StringText(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out(1, quote);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string HostText(const Value& value) {
  return std::visit(
      Overloaded{[](const None&) -> std::string { return "None"; }, [](bool b) { return PythonText(b); },
                 [](int64_t i) { return PythonText(i); }, [](uint64_t u) { return PythonText(u); },
                 [](double d) { return PythonText(d); }, [](const std::string& s) { return StringText(s); },
                 [](Dtype d) { return StrCat("torch.", DtypeName(d)); },
                 [](const DeviceValue& d) { return DeviceText(d.id); },
                 [](const ListPtr& l) {
                   std::vector<std::string> items;
                   for (const Value& item : l->items) items.push_back(HostText(item));
                   if (!l->tuple) return StrCat("[", StrJoin(items, ", "), "]");
                   return StrCat("(", StrJoin(items, ", "), items.size() == 1 ? ",)" : ")");
                 },
                 [](const Ellipsis&) -> std::string { return "Ellipsis"; },
                 [](const Namespace& n) { return StrCat("<module '", n.name, "'>"); },
                 [](const Function& f) { return StrCat("<function ", f.name, ">"); },
                 [&](const auto&) { return StrCat("<", value.KindText(), ">"); }},
      value.v);
}

Arithmetic Compute(std::string_view op, const Value& left, const Value& right) {
  if (left.Is<bool>() && right.Is<bool>() && (op == "&" || op == "|" || op == "^")) {
    const bool a = *left.As<bool>();
    const bool b = *right.As<bool>();
    return {Value(op == "&" ? (a && b) : op == "|" ? (a || b) : a != b), ""};
  }
  const bool integers = !left.Is<double>() && !right.Is<double>();
  if (integers && op != "/" && !(op == "**" && ToWide(right) < 0)) {
    // Products of two 64-bit magnitudes fit 128 bits unless both are unsigned and large.
    if (op == "*" && left.Is<uint64_t>() && right.Is<uint64_t>()) return Problem(kTooLarge);
    return ComputeIntegers(op, ToWide(left), ToWide(right));
  }
  return ComputeReals(op, ToReal(left), ToReal(right));
}

Arithmetic Negate(const Value& value) {
  if (const double* d = value.As<double>()) return {Value(-*d), ""};
  return FromWide(-ToWide(value));
}

Arithmetic Invert(const Value& value) {
  if (value.Is<double>()) return Problem("no ~ for reals");
  return FromWide(-ToWide(value) - 1);
}

int Compare(const Value& left, const Value& right) {
  if (!left.Is<double>() && !right.Is<double>()) {
    const Wide a = ToWide(left);
    const Wide b = ToWide(right);
    return a < b ? -1 : a > b ? 1 : 0;
  }
  const double a = ToReal(left);
  const double b = ToReal(right);
  return a < b ? -1 : a > b ? 1 : a == b ? 0 : 2;
}

}  // namespace tensord::expr
