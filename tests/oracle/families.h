// What the other families mean: loops over indices in exact or extended arithmetic, one function a family. Slow and plain on purpose.
//
// Arguments have passed inference; attributes are those of the instruction.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "kernels/ops/attributes.h"
#include "tests/oracle/array.h"

namespace tensord::oracle {

// Calls f(index, flat) for every index of a shape in row-major order.
template <class F>
void ForEachIndex(const Dims& shape, F&& f) {
  Dims index(shape.size(), 0);
  const int64_t n = NumElements(shape);
  for (int64_t flat = 0; flat < n; ++flat) {
    f(static_cast<const Dims&>(index), flat);
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
}
// Place of an index in a row-major array.
int64_t FlatIndex(const Dims& index, const Dims& shape);
// Element at an index after broadcasting: axes of size 1 repeat, missing ones are in front.
Number BroadcastAt(const Array& array, const Dims& index);
// Every element brought to another dtype.
Array Convert(const Array& array, Dtype dtype);

// sum mean prod max min any all argmax argmin var std. Axes are normalised already.
Array Reduce(std::string_view op, const Array& x, const ReduceAttributes& attributes);
// softmax, log_softmax along one axis.
Array Softmax(std::string_view op, const Array& x, int axis);
// NumPy's matmul after the transposes of the attributes; operands have one dtype.
Array Matmul(const Array& a, const Array& b, const MatmulAttributes& attributes);
// x @ weight.T + bias.
Array Linear(const Array& x, const Array& weight, const Array* bias);
Array Concat(const std::vector<Array>& parts, int axis);
Array Stack(const std::vector<Array>& parts, int axis);
Array Take(const Array& x, const Array& indices, int axis);
// conv, max_pool, avg_pool: (batch, channels, space…).
Array Conv(const Array& x, const Array& weight, const Array* bias, const WindowAttributes& attributes);
Array Pool(std::string_view op, const Array& x, const WindowAttributes& attributes);
Array BatchNorm(const Array& x, const Array& mean, const Array& variance, const Array* weight, const Array* bias,
                double epsilon);
Array LayerNorm(const Array& x, const Array* weight, const Array* bias, int axis, double epsilon);
Array Where(const Array& condition, const Array& a, const Array& b);
// Views, by enumeration of where each element of the result comes from.
Array Permute(const Array& x, const Axes& axes);
Array Slice(const Array& x, const ViewAttributes& attributes);
Array Expand(const Array& x, const Dims& shape);
Array Diagonal(const Array& x, int axis1, int axis2, int64_t offset);

// Philox 4x32-10: the four words for a counter and a key.
struct PhiloxWords {
  uint32_t word[4];
};
PhiloxWords Philox(uint64_t counter_low, uint64_t counter_high, uint64_t key);

}  // namespace tensord::oracle
