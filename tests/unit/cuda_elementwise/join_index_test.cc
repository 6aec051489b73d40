// Concat, stack and take.
#include <gtest/gtest.h>

#include <cstring>

#include "kernels/core/error.h"
#include "kernels/cuda/join.cuh"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

Attributes JoinOn(int32_t axis) {
  Attributes result;
  result.emplace<JoinAttributes>().axis = axis;
  return result;
}
Attributes IndexOn(int32_t axis) {
  Attributes result;
  result.emplace<IndexAttributes>().axis = axis;
  return result;
}

Tensor Counted(Dtype dtype, const Dims& shape, int64_t first = 0) {
  Tensor t(dtype, shape);
  for (int64_t i = 0; i < t.view.elements(); ++i) t.Set(i, Number::Of((first + i) % (dtype == Dtype::kBool ? 2 : 113)));
  return t;
}

void ExpectAsOnCpu(Device& device, Op op, const std::vector<KernelOperand>& inputs, const TensorType& type,
                   const Attributes& attributes) {
  const Tensor got = device.Run(op, inputs, type, type.dtype, attributes);
  const Tensor want = OnCpu(op, inputs, type, type.dtype, attributes);
  ExpectSame(got, want, StrCat(RowOf(op).name, " ", type.ToString()));
}

class CudaJoin : public ::testing::TestWithParam<int> {
 protected:
  static Device::Options Parameter() {
    Device::Options options = AllOrders()[static_cast<size_t>(GetParam())];
    options.multiprocessors = 1;
    return options;
  }
  Device device_{Parameter()};
};
using CudaTake = CudaJoin;
INSTANTIATE_TEST_SUITE_P(Orders, CudaJoin, ::testing::Range(0, 5));
INSTANTIATE_TEST_SUITE_P(Orders, CudaTake, ::testing::Range(0, 5));

TEST_P(CudaJoin, EveryAxisAndWidth) {
  for (const Dtype dtype : {Dtype::kBool, Dtype::kBfloat16, Dtype::kInt32, Dtype::kFloat64}) {
    for (const int32_t axis : {0, 1, 2, -1, -3}) {
      const size_t at = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      for (const int64_t inner : {1, 2, 4, 7, 16}) {
        std::vector<Tensor> parts;
        int64_t total = 0;
        for (const int64_t size : {3, 1, 0, 8, 4}) {
          Dims shape = {2, 3, inner};
          shape[at] = size;
          total += size;
          parts.push_back(Counted(dtype, shape, size * 10));
        }
        std::vector<KernelOperand> inputs;
        for (const Tensor& part : parts) inputs.push_back(In(part));
        Dims shape = {2, 3, inner};
        shape[at] = total;
        ExpectAsOnCpu(device_, Op::kConcat, inputs, {dtype, shape}, JoinOn(axis));
      }
    }
    for (const int32_t axis : {0, 1, 2, -1}) {
      const Tensor a = Counted(dtype, {5, 6}, 1);
      const Tensor b = Counted(dtype, {5, 6}, 50);
      Dims shape = {5, 6};
      shape.insert(shape.begin() + (axis < 0 ? axis + 3 : axis), 2);
      ExpectAsOnCpu(device_, Op::kStack, {In(a), In(b)}, {dtype, shape}, JoinOn(axis));
    }
  }
}

TEST_P(CudaJoin, StridedAndConvertedParts) {
  const Tensor base = Counted(Dtype::kInt32, {40, 50});
  const TensorView columns{Dtype::kInt32, {50, 40}, {1, 50}, base.view.data};
  const TensorView reversed{Dtype::kInt32, {10, 40}, {-40, -1}, base.view.as<int32_t>() + 399};
  const TensorView repeated{Dtype::kInt32, {3, 40}, {0, 1}, base.view.data};
  const Tensor plain = Counted(Dtype::kInt32, {7, 40});
  const Tensor small = Counted(Dtype::kInt8, {5, 40});
  const Tensor real = Counted(Dtype::kFloat16, {4, 40});
  const Tensor unsigned_twin = Counted(Dtype::kUint32, {2, 40});
  ExpectAsOnCpu(device_, Op::kConcat, {In(columns), In(plain), In(reversed), In(small), In(repeated)},
                {Dtype::kInt32, {75, 40}}, JoinOn(0));
  ExpectAsOnCpu(device_, Op::kConcat, {In(plain), In(real), In(small), In(unsigned_twin)}, {Dtype::kFloat64, {18, 40}},
                JoinOn(0));
  const TensorView wide{Dtype::kInt32, {40, 10}, {1, 40}, base.view.data};
  const Tensor right = Counted(Dtype::kInt32, {40, 3});
  const Tensor bytes = Counted(Dtype::kUint8, {40, 5});
  ExpectAsOnCpu(device_, Op::kConcat, {In(wide), In(right), In(bytes), In(right)}, {Dtype::kInt32, {40, 21}},
                JoinOn(1));
  const TensorView square{Dtype::kInt32, {20, 20}, {1, 20}, base.view.data};
  const TensorView straight{Dtype::kInt32, {20, 20}, {20, 1}, base.view.data};
  for (const int32_t axis : {0, 1, 2}) {
    Dims shape = {20, 20};
    shape.insert(shape.begin() + axis, 3);
    ExpectAsOnCpu(device_, Op::kStack, {In(square), In(straight), In(square)}, {Dtype::kInt32, shape}, JoinOn(axis));
  }
}

TEST_P(CudaJoin, MoreThanALaunchTakes) {
  std::vector<Tensor> parts;
  const int64_t count = 2 * cuda::kJoinParts + 3;
  for (int64_t i = 0; i < count; ++i) parts.push_back(Counted(i % 9 == 0 ? Dtype::kInt8 : Dtype::kInt16, {4, 3}, i));
  std::vector<KernelOperand> inputs;
  for (const Tensor& part : parts) inputs.push_back(In(part));
  ExpectAsOnCpu(device_, Op::kConcat, inputs, {Dtype::kInt16, {4, 3 * count}}, JoinOn(1));
  ExpectAsOnCpu(device_, Op::kStack, inputs, {Dtype::kInt16, {4, count, 3}}, JoinOn(1));
}

TEST_P(CudaJoin, Nothing) {
  const Tensor empty = Counted(Dtype::kFloat32, {0, 3});
  const Tensor rows = Counted(Dtype::kFloat32, {2, 3});
  ExpectAsOnCpu(device_, Op::kConcat, {In(empty), In(empty)}, {Dtype::kFloat32, {0, 3}}, JoinOn(0));
  ExpectAsOnCpu(device_, Op::kConcat, {In(empty), In(rows)}, {Dtype::kFloat32, {2, 3}}, JoinOn(0));
}

TEST_P(CudaTake, EveryAxisWidthAndIndexDtype) {
  for (const Dtype dtype : {Dtype::kBool, Dtype::kFloat16, Dtype::kFloat32, Dtype::kInt64}) {
    for (const int32_t axis : {0, 1, 2, -1}) {
      const size_t at = static_cast<size_t>(axis < 0 ? axis + 3 : axis);
      for (const int64_t inner : {1, 3, 8}) {
        const Tensor x = Counted(dtype, {4, 5, inner});
        for (const Dtype index : {Dtype::kInt8, Dtype::kInt16, Dtype::kInt32, Dtype::kInt64, Dtype::kUint8,
                                  Dtype::kUint16, Dtype::kUint32, Dtype::kUint64}) {
          const int64_t last = x.view.shape[at] - 1;
          std::vector<Number> numbers = {Number::Of(last), Number::Of(0), Number::Of(last / 2)};
          if (KindOf(index) == DtypeKind::kSigned) {
            numbers.push_back(Number::Of(-1));
            numbers.push_back(Number::Of(-last - 1));
          }
          const Tensor indices = Vector(index, numbers);
          Dims shape = x.view.shape;
          shape[at] = indices.view.elements();
          ExpectAsOnCpu(device_, Op::kTake, {In(x), In(indices)}, {dtype, shape}, IndexOn(axis));
        }
      }
    }
  }
}

TEST_P(CudaTake, StridesOfBothSides) {
  const Tensor base = Counted(Dtype::kInt32, {2000});
  const Tensor wanted = Vector(
      Dtype::kInt64, {Number::Of(3), Number::Of(0), Number::Of(-1), Number::Of(2), Number::Of(1), Number::Of(-4)});
  const TensorView matrix{Dtype::kInt64, {3, 2}, {1, 3}, wanted.view.data};
  const TensorView backwards{Dtype::kInt64, {6}, {-1}, wanted.view.as<int64_t>() + 5};
  const TensorView same{Dtype::kInt64, {7}, {0}, wanted.view.data};
  for (const TensorView& x : {TensorView{Dtype::kInt32, {6, 7, 5}, {35, 5, 1}, base.view.data},
                              TensorView{Dtype::kInt32, {6, 7, 5}, {1, 6, 42}, base.view.data},
                              TensorView{Dtype::kInt32, {6, 7, 5}, {50, -5, 1}, base.view.as<int32_t>() + 60},
                              TensorView{Dtype::kInt32, {6, 7, 5}, {0, 5, 1}, base.view.data},
                              TensorView{Dtype::kInt32, {6, 7, 5}, {35, 5, 0}, base.view.data}}) {
    for (const int32_t axis : {0, 1, 2}) {
      for (const TensorView& indices : {matrix, backwards, same}) {
        Dims shape;
        for (int32_t d = 0; d < 3; ++d) {
          if (d != axis) {
            shape.push_back(x.shape[static_cast<size_t>(d)]);
          } else {
            shape.insert(shape.end(), indices.shape.begin(), indices.shape.end());
          }
        }
        ExpectAsOnCpu(device_, Op::kTake, {In(x), In(indices)}, {Dtype::kInt32, shape}, IndexOn(axis));
      }
    }
  }
  const Scalar none;
  const Tensor empty(Dtype::kInt32, {0});
  const TensorView rows{Dtype::kInt32, {6, 7}, {7, 1}, base.view.data};
  ExpectAsOnCpu(device_, Op::kTake, {In(rows), In(empty)}, {Dtype::kInt32, {0, 7}}, IndexOn(0));
}

// The call fails as on the CPU, with the same words and numbers.
void ExpectRefused(Device& device, const TensorView& x, const Tensor& indices, const Dims& out_shape, int32_t axis,
                   const std::string& index) {
  Tensor out(x.dtype, out_shape);
  const Attributes attributes = IndexOn(axis);
  const KernelOperand inputs[2] = {In(x), In(indices)};
  const KernelCall call{Op::kTake, &attributes, x.dtype, inputs, absl::MakeConstSpan(&out.view, 1)};
  const absl::Status want = Cpu().Run(call, Cpu().default_stream(), Cpu().memory());
  const absl::Status got = device.TryRun(Op::kTake, {In(x), In(indices)}, x.dtype, attributes, out);
  EXPECT_EQ(ReasonOf(got), Reason::kIndexOutOfRange) << got;
  EXPECT_EQ(got, want);
  EXPECT_EQ(DetailsOf(got).Get("index"), index);
}

TEST_P(CudaTake, TheFirstBadIndexIsNamed) {
  const Tensor x = Counted(Dtype::kFloat32, {5, 3});
  std::vector<Number> numbers(3000, Number::Of(2));
  numbers[1700] = Number::Of(-6);
  numbers[1701] = Number::Of(5);
  numbers[2999] = Number::Of(77);
  ExpectRefused(device_, x.view, Vector(Dtype::kInt32, numbers), {3000, 3}, 0, "-6");
  numbers[40] = Number::Of(5);
  ExpectRefused(device_, x.view, Vector(Dtype::kInt8, numbers), {3000, 3}, 0, "5");
  ExpectRefused(device_, x.view, Vector(Dtype::kUint8, {Number::Of(0), Number::Of(200)}), {2, 3}, 0, "200");
  ExpectRefused(device_, x.view, Vector(Dtype::kInt64, {Number::Of(INT64_MIN)}), {5, 1}, -1, "-9223372036854775808");
  ExpectRefused(device_, x.view, Vector(Dtype::kUint64, {Number::Of(int128{1} << 63)}), {5, 1}, 1,
                "9223372036854775808");
  // Nothing to take from: every index is bad, and nothing may be read.
  const Tensor empty(Dtype::kFloat32, {0, 3});
  ExpectRefused(device_, empty.view, Vector(Dtype::kInt32, {Number::Of(0)}), {1, 3}, 0, "0");
  // Bad indices count where the result is empty all the same.
  const Tensor thin(Dtype::kFloat32, {5, 0});
  ExpectRefused(device_, thin.view, Vector(Dtype::kInt32, {Number::Of(9)}), {1, 0}, 0, "9");
  // And the next call knows nothing of it.
  const Tensor good = Vector(Dtype::kInt32, {Number::Of(4)});
  ExpectAsOnCpu(device_, Op::kTake, {In(x), In(good)}, {Dtype::kFloat32, {1, 3}}, IndexOn(0));
}

}  // namespace
}  // namespace tensord::testing
