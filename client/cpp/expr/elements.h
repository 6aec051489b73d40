// Elements of a tensor's raw bytes as host values, and numbers as text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "kernels/core/dtype.h"

namespace tensord::expr {

// bool, signed, unsigned or real; float16, bfloat16 and float32 are exact as double.
using Element = std::variant<bool, int64_t, uint64_t, double>;

// The element at `bytes` (ItemSize(dtype) little-endian bytes). The dtype is not complex.
Element ReadElement(Dtype dtype, const char* bytes);

// As Python's repr: "True", "3", "0.1", "1e-05", "inf", "nan".
std::string PythonText(const Element& element);
std::string PythonReal(double value);

// As JSON, strictly: the shortest digits that read back as the same element of `dtype`, always with a point or an
// exponent for reals;
// "NaN", "Infinity" and "-Infinity" are strings.
std::string JsonText(Dtype dtype, const Element& element);

// A JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
std::string JsonString(std::string_view text);

}  // namespace tensord::expr
