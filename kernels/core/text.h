// Assembling text. Debian's Abseil is built for C++14, so absl::string_view is a type of its own and absl::StrCat does
// not take std::string_view; ours is std::string_view, and text is put together by {fmt} or by StrCat below.
#pragma once

#include <concepts>
#include <string>
#include <string_view>

#include "absl/strings/string_view.h"

namespace tensord {

// For Abseil's functions.
inline absl::string_view ToAbsl(std::string_view s) { return {s.data(), s.size()}; }

namespace text_internal {
std::string DoubleText(double value);  // shortest that reads back as the same

template <class T>
void Append(std::string& out, const T& value) {
  if constexpr (std::convertible_to<const T&, std::string_view>) {
    out.append(std::string_view(value));
  } else if constexpr (std::same_as<T, bool>) {
    out.append(value ? "true" : "false");
  } else if constexpr (std::integral<T>) {
    out.append(std::to_string(value));
  } else {
    out.append(DoubleText(static_cast<double>(value)));
  }
}
}  // namespace text_internal

// Strings, integers, reals and bools, one after the other.
template <class... T>
std::string StrCat(const T&... values) {
  std::string out;
  (text_internal::Append(out, values), ...);
  return out;
}

// Elements of a range with `separator` between them.
template <class Range>
std::string StrJoin(const Range& range, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& value : range) {
    if (!first) out.append(separator);
    first = false;
    text_internal::Append(out, value);
  }
  return out;
}

}  // namespace tensord
