#include <cmath>
#include <limits>

#include "case.h"
#include "kernels/core/text.h"

namespace tensord::cuda {
namespace {

constexpr long double kInf = std::numeric_limits<long double>::infinity();

ReduceAttributes Along(int32_t axis) {
  ReduceAttributes a;
  a.axes.push_back(axis);
  return a;
}

// The oracle adds a row up again for every element of it; this adds it up once.
Array Softmax(const Array& x, int axis, bool log) {
  const Dims& shape = x.type.shape;
  const auto a = static_cast<size_t>(axis);
  Array out = Array::Zeros(x.type.dtype, shape);
  Dims starts = shape;
  starts[a] = 1;
  oracle::ForEachIndex(starts, [&](const Dims& index, int64_t) {
    Dims at = index;
    std::vector<long double> values;
    for (at[a] = 0; at[a] < shape[a]; ++at[a]) values.push_back(x.At(oracle::FlatIndex(at, shape)).real);
    long double max = values[0];
    for (const long double v : values) max = std::fmax(max, v);
    long double sum = 0;
    for (const long double v : values) sum += std::exp(v - max);
    for (at[a] = 0; at[a] < shape[a]; ++at[a]) {
      const long double shifted = values[static_cast<size_t>(at[a])] - max;
      out.Set(oracle::FlatIndex(at, shape), Number::Real(log ? shifted - std::log(sum) : std::exp(shifted) / sum));
    }
  });
  return out;
}

class SoftmaxTest : public FamilyTest {
 protected:
  void Check(const Tensor& x, int32_t axis, bool log) {
    SCOPED_TRACE(StrCat(x.Text(), " axis ", axis, log ? " log" : ""));
    const Op op = log ? Op::kLogSoftmax : Op::kSoftmax;
    const auto rank = static_cast<int32_t>(x.shape().size());
    const Array expected = Softmax(x.host, axis < 0 ? axis + rank : axis, log);
    const double eps = ComputeEpsilon(x.view.dtype);
    const double ulps = x.view.dtype == Dtype::kFloat32 || x.view.dtype == Dtype::kFloat64 ? 16 : 1;
    ASSERT_TRUE(Agrees(Run(op, {&x}, Along(axis)), expected, ulps, log ? 8 * eps * (1 + 2 * Largest(x.host)) : 0));
  }
};

TEST_P(SoftmaxTest, EveryDtypeLayoutAndAxis) {
  for (const Dtype dtype : kReals) {
    for (const Lay lay : kLays) {
      for (const Dims& shape : {Dims{3, 10, 5}, Dims{1, 70, 3}, Dims{2, 3, 40}, Dims{3, 1, 4}}) {
        const auto axis = static_cast<int32_t>(random()() % 6) - 3;
        const Tensor x = Make(dtype, shape, lay, {-8, 8});
        Check(x, axis, random()() % 2 == 0);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Around the numbers by which kernels cut: lanes, registers of a group, threads of a block, shared memory.
TEST_P(SoftmaxTest, EveryFormOfTheWork) {
  for (const int64_t n : {1, 2, 31, 32, 33, 255, 256, 257, 1025, 8193}) {
    const Dtype dtype = kReals[random()() % 4];
    const Tensor rows = Make(dtype, {n > 1000 ? 2 : 19, n}, Lay::kContiguous, {-8, 8});
    Check(rows, 1, n % 2 == 0);
    const Tensor columns = Make(dtype, {2, n, n > 1000 ? 3 : 34}, Lay::kContiguous, {-8, 8});
    Check(columns, 1, n % 2 != 0);
    if (HasFatalFailure()) return;
  }
  const Tensor wide = Make(Dtype::kFloat64, {1, 4097}, Lay::kContiguous, {-8, 8});
  Check(wide, 1, false);
}

TEST_P(SoftmaxTest, Extremes) {
  const std::vector<long double> values = {1000,  1000,  1000,  1e4L,  0, -1e4L, -kInf, 0,
                                           -kInf, -kInf, -kInf, -kInf, 0, kInf,  0};
  for (const bool by_columns : {false, true}) {
    Array array = Array::Zeros(Dtype::kFloat32, by_columns ? Dims{3, 5} : Dims{5, 3});
    const auto place = [&](int64_t i) { return by_columns ? i % 3 * 5 + i / 3 : i; };
    for (int64_t i = 0; i < 15; ++i) array.Set(place(i), Number::Real(values[static_cast<size_t>(i)]));
    const Tensor x = Of(array);
    const Array y = *Run(Op::kSoftmax, {&x}, Along(by_columns ? 0 : 1));
    for (int64_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(y.At(place(i)).real), 1.0 / 3, 1e-6);
    const long double expected[] = {1, 0, 0, 0, 1, 0};
    for (int64_t i = 3; i < 9; ++i) EXPECT_EQ(y.At(place(i)).real, expected[i - 3]) << i;
    for (int64_t i = 9; i < 15; ++i) EXPECT_TRUE(std::isnan(y.At(place(i)).real)) << i;
  }
  // Rows in shared memory take the same way.
  std::vector<long double> longer(600, -kInf);
  const Tensor nothing = Of(Dtype::kFloat32, {1, 600}, longer);
  EXPECT_TRUE(std::isnan(Run(Op::kSoftmax, {&nothing}, Along(1))->At(3).real));
  longer[300] = 0;
  const Tensor one = Of(Dtype::kFloat32, {1, 600}, longer);
  EXPECT_EQ(Run(Op::kSoftmax, {&one}, Along(1))->At(300).real, 1);
  EXPECT_EQ(Run(Op::kLogSoftmax, {&one}, Along(1))->At(299).real, -kInf);
  const Tensor half = Of(Dtype::kFloat16, {2}, {60000, 0});
  EXPECT_EQ(Run(Op::kSoftmax, {&half}, Along(0))->At(0).real, 1);
}

TEST_P(SoftmaxTest, NoElements) {
  const Tensor empty = Of(Array::Zeros(Dtype::kFloat32, {2, 0}));
  for (const int32_t axis : {0, 1}) {
    const absl::StatusOr<Array> out = Run(Op::kSoftmax, {&empty}, Along(axis));
    ASSERT_TRUE(out.ok()) << out.status();
    EXPECT_EQ(out->type, empty.host.type);
  }
}

TENSORD_EVERY_ORDER(SoftmaxTest);

class NormTest : public FamilyTest {
 protected:
  void CheckLayer(const Tensor& x, int32_t axis, const Tensor* weight, const Tensor* bias) {
    SCOPED_TRACE(StrCat(x.Text(), " axis ", axis, weight != nullptr ? " weight" : "", bias != nullptr ? " bias" : ""));
    NormAttributes a;
    a.axis = axis;
    a.epsilon = 1e-3;
    const auto rank = static_cast<int32_t>(x.shape().size());
    const Array expected =
        oracle::LayerNorm(x.host, weight != nullptr ? &weight->host : nullptr, bias != nullptr ? &bias->host : nullptr,
                          axis < 0 ? axis + rank : axis, a.epsilon);
    const double eps = ComputeEpsilon(x.view.dtype);
    ASSERT_TRUE(Agrees(Run(Op::kLayerNorm, {&x, weight, bias}, a), expected, 1, 256 * eps * (1 + Largest(x.host))));
  }
};

TEST_P(NormTest, LayerNormOfEveryDtypeLayoutAndAxis) {
  for (const Dtype dtype : kReals) {
    for (const Lay lay : kLays) {
      for (const Dims& shape : {Dims{3, 5, 7}, Dims{2, 15, 20}, Dims{4, 1, 1}}) {
        const auto axis = static_cast<int32_t>(random()() % 6) - 3;
        const Tensor x = Make(dtype, shape, lay, {-3, 5});
        const Dims rest(shape.begin() + (axis + 3) % 3, shape.end());
        const Tensor weight = Make(dtype, rest, lay, {0, 2});
        const Tensor bias = Make(dtype, rest, lay, {-1, 1});
        CheckLayer(x, axis, random()() % 2 == 0 ? &weight : nullptr, random()() % 2 == 0 ? &bias : nullptr);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(NormTest, LayerNormOfEveryLength) {
  for (const int64_t n : {1, 2, 31, 32, 33, 255, 256, 257, 1025, 8193}) {
    const Dtype dtype = kReals[random()() % 4];
    const Tensor x = Make(dtype, {n > 1000 ? 2 : 19, n}, Lay::kContiguous, {-3, 5});
    const Tensor weight = Make(dtype, {n}, Lay::kContiguous, {0, 2});
    const Tensor bias = Make(dtype, {n}, Lay::kContiguous, {-1, 1});
    CheckLayer(x, 1, &weight, &bias);
    if (HasFatalFailure()) return;
  }
}

TEST_P(NormTest, LayerNormFarFromZero) {
  for (const int64_t n : {100, 1000}) {
    Array array = Array::Zeros(Dtype::kFloat32, {2, n});
    std::normal_distribution<double> normal;
    for (int64_t i = 0; i < array.size(); ++i) array.Set(i, Number::Real(1000 + normal(random())));
    const Tensor x = Of(array);
    NormAttributes a;
    a.axis = 1;
    a.epsilon = 1e-5;
    EXPECT_TRUE(Agrees(Run(Op::kLayerNorm, {&x}, a), oracle::LayerNorm(array, nullptr, nullptr, 1, 1e-5), 0, 2e-3));
  }
}

TEST_P(NormTest, BatchNormOfEveryDtypeAndRank) {
  for (const Dtype dtype : kReals) {
    for (const Dims& shape :
         {Dims{4, 5}, Dims{3, 5, 7}, Dims{2, 5, 6, 7}, Dims{2, 5, 2, 3, 4}, Dims{30, 35}, Dims{0, 5, 3}}) {
      for (const bool parameters : {false, true}) {
        const Lay lay = AnyLay();
        const Tensor x = Make(dtype, shape, lay, {-3, 3});
        const Tensor mean = Make(dtype, {shape[1]}, lay, {-1, 1});
        const Tensor variance = Make(dtype, {shape[1]}, lay, {0.5, 2});
        const Tensor weight = Make(dtype, {shape[1]}, lay, {0.5, 2});
        const Tensor bias = Make(dtype, {shape[1]}, lay, {-1, 1});
        NormAttributes a;
        a.epsilon = 1e-3;
        const Array expected = oracle::BatchNorm(x.host, mean.host, variance.host, parameters ? &weight.host : nullptr,
                                                 parameters ? &bias.host : nullptr, a.epsilon);
        const auto got = Run(Op::kBatchNorm,
                             {&x, &mean, &variance, parameters ? &weight : nullptr, parameters ? &bias : nullptr}, a);
        ASSERT_TRUE(Agrees(got, expected, 1, 64 * ComputeEpsilon(dtype))) << x.Text();
      }
    }
  }
}

TEST_P(NormTest, NoElementsAndNoMemory) {
  const Tensor empty = Of(Array::Zeros(Dtype::kFloat32, {2, 0}));
  NormAttributes a;
  a.axis = 1;
  EXPECT_TRUE(Run(Op::kLayerNorm, {&empty}, a).ok());
  const Tensor x = Make(Dtype::kFloat32, {3, 4}, Lay::kContiguous);
  const Tensor channel = Make(Dtype::kFloat32, {4}, Lay::kContiguous, {1, 2});
  scratch().fail_after = 0;
  const absl::Status status = Run(Op::kBatchNorm, {&x, &channel, &channel}, NormAttributes{}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  scratch().fail_after = -1;
}

TENSORD_EVERY_ORDER(NormTest);

}  // namespace
}  // namespace tensord::cuda
