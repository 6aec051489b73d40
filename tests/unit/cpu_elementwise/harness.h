// Tensors, calls and exact numbers for the tests of the CPU's elementwise ops.
//
// A Number is what an element is worth: an integer in 128 bits or a long double, so that references need no functor and
// no loop of the code under test. Conversions here are written by arithmetic, not by bits.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/core/half.h"

namespace tensord::testing {

__extension__ using int128 = __int128;

struct Number {
  bool real = false;
  int128 integer = 0;
  long double value = 0;

  static Number Of(int128 i) { return {false, i, 0}; }
  static Number Real(long double v) { return {true, 0, v}; }
};

const std::vector<Dtype>& AllDtypes();  // the thirteen that are not complex
bool IsHalfDtype(Dtype dtype);

// The element of `dtype` at `data`.
Number Read(Dtype dtype, const void* data);
// Rounds (reals, to nearest even) or wraps (integers) into `dtype`.
void Write(Dtype dtype, Number number, void* data);
// The float16 or bfloat16 nearest to v, ties to even.
uint16_t NearestHalf(Dtype dtype, long double v);
// Distance to the next representable number, at v.
long double UlpOf(Dtype dtype, long double v);
// Sign, infinity, NaN and all: the same element (any NaN is NaN)? With `ulps` > 0, or that near.
bool Same(Dtype dtype, Number got, Number want, double ulps);
std::string Text(Dtype dtype, Number number);

// A tensor and its memory.
struct Tensor {
  std::vector<std::byte> memory;
  TensorView view;

  Tensor(Dtype dtype, Dims shape);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  Tensor(Tensor&&) = default;

  Number At(int64_t i) const;  // contiguous ones
  void Set(int64_t i, Number number);
};
// 1-d, from numbers.
Tensor Vector(Dtype dtype, const std::vector<Number>& numbers);

// Zeros, ones, extremes, halves, subnormals, infinities, NaN: whatever `dtype` has of them.
std::vector<Number> Edges(Dtype dtype);

// The CPU backend, one for the process.
Backend& Cpu();

// Runs an op over tensors (views of any strides) into a new tensor of `output`.
Tensor RunOp(Op op, std::vector<KernelOperand> inputs, TensorType output, Dtype compute,
             const Attributes& attributes = {});
KernelOperand In(const Tensor& tensor);
KernelOperand In(const TensorView& view);
KernelOperand In(const Scalar& scalar);

// An element of any view.
Number ElementOf(const TensorView& view, const Dims& index);
// Calls f(index, linear) for every index of `shape` in row-major order.
template <class F>
void ForEachIndex(const Dims& shape, F&& f) {
  const int64_t n = NumElements(shape);
  Dims index(shape.size(), 0);
  for (int64_t i = 0; i < n; ++i) {
    f(index, i);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}

}  // namespace tensord::testing
