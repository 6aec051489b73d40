// Host arrays for tests: bytes of a dtype with a shape, and their elements as exact numbers.
//
// Independent of the code under test: it shares dtypes and the two storage types of 16 bits with it, nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/core/shape.h"

namespace tensord::oracle {

// An element, exact for every dtype: integers (bool as 0 and 1) in `integer`, reals in `real`.
struct Number {
  bool is_real = false;
  __int128 integer = 0;
  long double real = 0;

  static Number Integer(__int128 value) { return {false, value, 0}; }
  static Number Real(long double value) { return {true, 0, value}; }
  long double AsReal() const { return is_real ? real : static_cast<long double>(integer); }
  bool IsTrue() const { return is_real ? !(real == 0) : integer != 0; }
};

// Row-major elements.
struct Array {
  TensorType type;
  std::string bytes;

  static Array Zeros(Dtype dtype, const Dims& shape);
  // Each element stored by Store.
  static Array Of(Dtype dtype, const Dims& shape, const std::vector<Number>& elements);
  int64_t size() const { return type.elements(); }
  Number At(int64_t index) const;
  void Set(int64_t index, const Number& value);
  std::vector<Number> Elements() const;
};

// How a number becomes an element: integers wrap to the width, reals round once to nearest even, a real into an integer
// truncates and saturates (NaN 0), anything into bool is != 0.
void Store(Dtype dtype, const Number& value, void* out);
Number Load(Dtype dtype, const void* element);

// The distance from 1 to the next number of a real dtype.
double Epsilon(Dtype dtype);

// Values worth trying for a dtype: zeros of both signs, ones, extremes, NaN, infinities, subnormals, halves, and a few
// ordinary ones.
std::vector<Number> Interesting(Dtype dtype);
// `count` of Interesting and of ordinary random values, by seed.
Array Sample(Dtype dtype, const Dims& shape, uint64_t seed, bool extremes = true);

// Empty where the two agree; else the first difference, "element [1,2]: got 3, expected 4 (off by 1 ulp)". Integers and
// bools must be equal, NaN must meet NaN, infinities their like; reals may differ by `ulps` units of the expected
// value's last place in the array's dtype, or by `absolute`.
std::string Compare(const Array& got, const Array& expected, double ulps = 0, double absolute = 0);

}  // namespace tensord::oracle
