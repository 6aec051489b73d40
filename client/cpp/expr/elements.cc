#include "client/cpp/expr/elements.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>

#include "kernels/core/half.h"

namespace tensord::expr {
namespace {

template <class T>
T Load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

template <class... Args>
std::string ToChars(Args... args) {
  std::array<char, 64> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), args...);
  return {buffer.data(), result.ptr};
}

// Fewest digits that round to the same two-byte value; whole numbers in full.
template <class T>
std::string ShortestSmall(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e6) return ToChars(value);
  const uint16_t bits = T(static_cast<float>(value)).bits;
  for (int digits = 1; digits <= 8; ++digits) {
    const std::string text = ToChars(value, std::chars_format::general, digits);
    double back = 0;
    std::from_chars(text.data(), text.data() + text.size(), back);
    if (T(static_cast<float>(back)).bits == bits) return ToChars(back);
  }
  return ToChars(value);
}

// Length of the well-formed UTF-8 sequence at the start of `s`, or 0.
size_t SequenceLength(std::string_view s) {
  const auto byte = [&](size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
  const auto tail = [&](size_t i, unsigned low = 0x80, unsigned high = 0xBF) {
    return byte(i) >= low && byte(i) <= high;
  };
  const unsigned b = byte(0);
  if (b < 0x80) return 1;
  if (b >= 0xC2 && b <= 0xDF) return tail(1) ? 2 : 0;
  if (b >= 0xE0 && b <= 0xEF) {
    return tail(1, b == 0xE0 ? 0xA0 : 0x80, b == 0xED ? 0x9F : 0xBF) && tail(2) ? 3 : 0;
  }
  if (b >= 0xF0 && b <= 0xF4) {
    return tail(1, b == 0xF0 ? 0x90 : 0x80, b == 0xF4 ? 0x8F : 0xBF) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

Element ReadElement(Dtype dtype, const char* bytes) {
  Element element = 0.0;
  VisitDtype(dtype, [&]<class T>() {
    if constexpr (std::is_same_v<T, bool>) {
      element = *bytes != 0;
    } else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      element = static_cast<double>(static_cast<float>(Load<T>(bytes)));
    } else if constexpr (std::is_floating_point_v<T>) {
      element = static_cast<double>(Load<T>(bytes));
    } else if constexpr (std::is_signed_v<T>) {
      element = static_cast<int64_t>(Load<T>(bytes));
    } else {
      element = static_cast<uint64_t>(Load<T>(bytes));
    }
  });
  return element;
}

std::string PythonReal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  // Python goes to an exponent below 1e-4 and from 1e16 on, whatever is shorter.
  const double magnitude = std::fabs(value);
  const bool scientific = magnitude != 0 && (magnitude < 1e-4 || magnitude >= 1e16);
  std::string text = ToChars(value, scientific ? std::chars_format::scientific : std::chars_format::fixed);
  if (!scientific && text.find('.') == std::string::npos) text += ".0";
  return text;
}

std::string PythonText(const Element& element) {
  if (const bool* b = std::get_if<bool>(&element)) return *b ? "True" : "False";
  if (const int64_t* i = std::get_if<int64_t>(&element)) return std::to_string(*i);
  if (const uint64_t* u = std::get_if<uint64_t>(&element)) return std::to_string(*u);
  return PythonReal(std::get<double>(element));
}

std::string JsonText(Dtype dtype, const Element& element) {
  if (const bool* b = std::get_if<bool>(&element)) return *b ? "true" : "false";
  if (const int64_t* i = std::get_if<int64_t>(&element)) return std::to_string(*i);
  if (const uint64_t* u = std::get_if<uint64_t>(&element)) return std::to_string(*u);
  const double value = std::get<double>(element);
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value < 0 ? "\"-Infinity\"" : "\"Infinity\"";
  std::string text;
  if (dtype == Dtype::kFloat16) {
    text = ShortestSmall<Half>(value);
  } else if (dtype == Dtype::kBfloat16) {
    text = ShortestSmall<BFloat16>(value);
  } else if (dtype == Dtype::kFloat32) {
    text = ToChars(static_cast<float>(value));
  } else {
    text = ToChars(value);
  }
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string JsonString(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out = "\"";
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      out += "\\u00";
      out += kHex[static_cast<unsigned char>(c) >> 4];
      out += kHex[static_cast<unsigned char>(c) & 15];
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

}  // namespace tensord::expr
