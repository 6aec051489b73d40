#include <cmath>
#include <limits>

#include "case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/text.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

using ::testing::ElementsAre;

constexpr long double kInf = std::numeric_limits<long double>::infinity();

ReduceAttributes Along(int32_t axis) {
  ReduceAttributes a;
  a.axes.push_back(axis);
  return a;
}

void CheckSoftmax(const TestTensor& x, int32_t axis, bool log) {
  SCOPED_TRACE(StrCat(x.view().type().ToString(), " strides [", StrJoin(x.view().strides, ","), "] axis ", axis,
                      log ? " log" : ""));
  const absl::StatusOr<TestTensor> out = RunOp(log ? Op::kLogSoftmax : Op::kSoftmax, {&x}, Along(axis));
  ASSERT_TRUE(out.ok()) << out.status();
  const size_t d = static_cast<size_t>(axis < 0 ? axis + static_cast<int32_t>(x.shape().size()) : axis);
  const int64_t n = x.shape()[d];
  for (int64_t i = 0; i < x.elements(); ++i) {
    std::vector<int64_t> at = Unravel(i, x.shape());
    if (at[d] != 0) continue;
    std::vector<long double> values;
    for (at[d] = 0; at[d] < n; ++at[d]) values.push_back(x.Get(Ravel(at, x.shape())));
    long double max = values[0];
    for (const long double v : values) max = std::max(max, v);
    long double sum = 0;
    for (const long double v : values) sum += std::exp(v - max);
    for (at[d] = 0; at[d] < n; ++at[d]) {
      const long double v = values[static_cast<size_t>(at[d])];
      const long double want = log ? v - max - std::log(sum) : std::exp(v - max) / sum;
      const long double eps = ComputeEpsilon(x.dtype());
      const long double tolerance = (StorageEpsilon(x.dtype()) + 16 * eps) * std::abs(want) +
                                    (log ? 8 * eps * (1 + max - v) : 0) + (x.dtype() == Dtype::kFloat16 ? 0x1p-24L : 0);
      const long double got = out->Get(Ravel(at, x.shape()));
      ASSERT_TRUE(Near(got, want, tolerance))
          << "element " << Ravel(at, x.shape()) << " is " << got << ", expected " << want;
    }
  }
}

TEST(Softmax, EveryDtypeLayoutAndAxis) {
  ForEachIsa([] {
    std::mt19937 random(41);
    for (const Dtype dtype : Reals()) {
      for (const Lay lay : Lays()) {
        for (const Dims& shape : {Dims{3, 10, 5}, Dims{1, 700, 3}, Dims{2, 3, 300}, Dims{3, 1, 4}}) {
          for (int32_t axis = -3; axis < 3; ++axis) {
            TestTensor x(dtype, shape, lay, random);
            x.Fill(random, -8, 8);
            CheckSoftmax(x, axis, axis % 2 == 0);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
      TestTensor wide(dtype, {2, 5000}, Lay::kContiguous, random);
      wide.Fill(random, -8, 8);
      for (const bool log : {false, true}) CheckSoftmax(wide, 1, log);
      TestTensor many(dtype, {3000, 30}, Lay::kContiguous, random);
      many.Fill(random, -8, 8);
      for (const int32_t axis : {0, 1}) CheckSoftmax(many, axis, false);
    }
  });
}

TEST(Softmax, Extremes) {
  ForEachIsa([] {
    const TestTensor x = TestTensor::Of(
        Dtype::kFloat32, {5, 3}, {1000, 1000, 1000, 1e4L, 0, -1e4L, -kInf, 0, -kInf, -kInf, -kInf, -kInf, 0, kInf, 0});
    const std::vector<long double> y = RunOp(Op::kSoftmax, {&x}, Along(1))->Values();
    for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(static_cast<double>(y[i]), 1.0 / 3, 1e-6);
    EXPECT_THAT(std::vector<long double>(y.begin() + 3, y.begin() + 9), ElementsAre(1, 0, 0, 0, 1, 0));
    for (size_t i = 9; i < 15; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
    // The same along the other axis, through the column loops.
    TestTensor columns = TestTensor::Contiguous(Dtype::kFloat32, {3, 5});
    for (int64_t i = 0; i < 15; ++i) columns.Set(i % 3 * 5 + i / 3, x.Get(i));
    const TestTensor z = *RunOp(Op::kSoftmax, {&columns}, Along(0));
    for (int64_t i = 0; i < 15; ++i) {
      EXPECT_TRUE(Near(z.Get(i % 3 * 5 + i / 3), y[static_cast<size_t>(i)], 1e-6L)) << i;
    }
    const TestTensor log = TestTensor::Of(Dtype::kFloat32, {2}, {0, -kInf});
    EXPECT_THAT(RunOp(Op::kLogSoftmax, {&log}, Along(0))->Values(), ElementsAre(0, -kInf));
    const TestTensor half = TestTensor::Of(Dtype::kFloat16, {2}, {60000, 0});
    EXPECT_THAT(RunOp(Op::kSoftmax, {&half}, Along(0))->Values(), ElementsAre(1, 0));
    const TestTensor empty = TestTensor::Contiguous(Dtype::kFloat32, {2, 0});
    EXPECT_THAT(RunOp(Op::kSoftmax, {&empty}, Along(1))->shape(), ElementsAre(2, 0));
    EXPECT_THAT(RunOp(Op::kSoftmax, {&empty}, Along(0))->shape(), ElementsAre(2, 0));
  });
}

TEST(Softmax, PlaceMakesNoDifference) {
  std::mt19937 random(42);
  TestTensor row(Dtype::kFloat32, {1, 13}, Lay::kContiguous, random);
  row.Fill(random, -5, 5);
  TestTensor many = TestTensor::Contiguous(Dtype::kFloat32, {500, 13});
  for (int64_t i = 0; i < many.elements(); ++i) many.Set(i, row.Get(i % 13));
  const TestTensor one = *RunOp(Op::kSoftmax, {&row}, Along(1));
  const TestTensor all = *RunOp(Op::kSoftmax, {&many}, Along(1));
  for (int64_t i = 0; i < all.elements(); ++i) ASSERT_EQ(all.Get(i), one.Get(i % 13));
}

void CheckLayerNorm(const TestTensor& x, int32_t axis, const TestTensor* weight, const TestTensor* bias) {
  SCOPED_TRACE(StrCat(x.view().type().ToString(), " strides [", StrJoin(x.view().strides, ","), "] axis ", axis));
  NormAttributes a;
  a.axis = axis;
  a.epsilon = 1e-5;
  const absl::StatusOr<TestTensor> out = RunOp(Op::kLayerNorm, {&x, weight, bias}, a);
  ASSERT_TRUE(out.ok()) << out.status();
  int64_t n = 1;
  for (size_t d = static_cast<size_t>(axis < 0 ? axis + static_cast<int32_t>(x.shape().size()) : axis);
       d < x.shape().size(); ++d)
    n *= x.shape()[d];
  for (int64_t first = 0; first < x.elements(); first += n) {
    long double mean = 0;
    for (int64_t i = 0; i < n; ++i) mean += x.Get(first + i);
    mean /= static_cast<long double>(n);
    long double variance = 0;
    for (int64_t i = 0; i < n; ++i) variance += (x.Get(first + i) - mean) * (x.Get(first + i) - mean);
    variance /= static_cast<long double>(n);
    for (int64_t i = 0; i < n; ++i) {
      const long double w = weight != nullptr ? weight->Get(i) : 1;
      const long double b = bias != nullptr ? bias->Get(i) : 0;
      const long double scaled = (x.Get(first + i) - mean) / std::sqrt(variance + 1e-5L) * w;
      const long double eps = ComputeEpsilon(x.dtype());
      const long double tolerance =
          StorageEpsilon(x.dtype()) * std::abs(scaled + b) +
          64 * eps * (std::abs(scaled) + std::abs(b) + std::abs(mean * w) / std::sqrt(variance + 1e-5L)) +
          (x.dtype() == Dtype::kFloat16 ? 0x1p-24L : 0);
      ASSERT_TRUE(Near(out->Get(first + i), scaled + b, tolerance))
          << "element " << first + i << " is " << out->Get(first + i) << ", expected " << scaled + b;
    }
  }
}

TEST(LayerNorm, EveryDtypeLayoutAndAxis) {
  ForEachIsa([] {
    std::mt19937 random(43);
    for (const Dtype dtype : Reals()) {
      for (const Lay lay : Lays()) {
        for (const Dims& shape : {Dims{3, 5, 7}, Dims{2, 50, 60}, Dims{4, 1, 1}}) {
          for (int32_t axis = -3; axis < 3; ++axis) {
            TestTensor x(dtype, shape, lay, random);
            x.Fill(random, -3, 5);
            Dims rest(shape.begin() + (axis + 3) % 3, shape.end());
            TestTensor weight(dtype, rest, lay, random);
            TestTensor bias(dtype, rest, lay, random);
            weight.Fill(random, 0, 2);
            bias.Fill(random, -1, 1);
            CheckLayerNorm(x, axis, nullptr, nullptr);
            CheckLayerNorm(x, axis, &weight, &bias);
            CheckLayerNorm(x, axis, &weight, nullptr);
            CheckLayerNorm(x, axis, nullptr, &bias);
            if (::testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

TEST(LayerNorm, FarFromZero) {
  std::mt19937 random(44);
  TestTensor x(Dtype::kFloat32, {4, 1000}, Lay::kContiguous, random);
  for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, 1000 + std::normal_distribution<double>()(random));
  CheckLayerNorm(x, 1, nullptr, nullptr);
}

TEST(BatchNorm, EveryDtypeAndRank) {
  ForEachIsa([] {
    std::mt19937 random(45);
    for (const Dtype dtype : Reals()) {
      for (const Dims& shape :
           {Dims{4, 5}, Dims{3, 5, 7}, Dims{2, 5, 30, 40}, Dims{2, 5, 2, 3, 4}, Dims{300, 300}, Dims{0, 5, 3}}) {
        for (const bool parameters : {false, true}) {
          const Lay lay = Lays()[random() % Lays().size()];
          TestTensor x(dtype, shape, lay, random);
          const Dims channels = {shape[1]};
          TestTensor mean(dtype, channels, lay, random);
          TestTensor variance(dtype, channels, lay, random);
          TestTensor weight(dtype, channels, lay, random);
          TestTensor bias(dtype, channels, lay, random);
          x.Fill(random, -3, 3);
          mean.Fill(random, -1, 1);
          variance.Fill(random, 0.5, 2);
          weight.Fill(random, 0.5, 2);
          bias.Fill(random, -1, 1);
          NormAttributes a;
          a.epsilon = 1e-3;
          const absl::StatusOr<TestTensor> out = RunOp(
              Op::kBatchNorm, {&x, &mean, &variance, parameters ? &weight : nullptr, parameters ? &bias : nullptr}, a);
          ASSERT_TRUE(out.ok()) << out.status();
          for (int64_t i = 0; i < x.elements(); ++i) {
            const int64_t c = Unravel(i, shape)[1];
            const long double root = std::sqrt(variance.Get(c) + 1e-3L);
            const long double w = parameters ? weight.Get(c) : 1;
            const long double b = parameters ? bias.Get(c) : 0;
            const long double want = (x.Get(i) - mean.Get(c)) / root * w + b;
            const long double tolerance = StorageEpsilon(dtype) * std::abs(want) + 16 * ComputeEpsilon(dtype) * 16;
            ASSERT_TRUE(Near(out->Get(i), want, tolerance)) << DtypeName(dtype) << ShapeText(shape) << " element " << i;
          }
        }
      }
    }
  });
}

TEST(Rows, SameBitsForAnyThreads) {
  std::mt19937 random(46);
  TestTensor x(Dtype::kFloat32, {300, 500}, Lay::kContiguous, random);
  x.Fill(random, -3, 3);
  NormAttributes a;
  a.axis = 1;
  a.epsilon = 1e-5;
  SetThreads(1);
  const auto soft = RunOp(Op::kSoftmax, {&x}, Along(0))->Bytes();
  const auto norm = RunOp(Op::kLayerNorm, {&x, nullptr, nullptr}, a)->Bytes();
  SetThreads(4);
  EXPECT_EQ(RunOp(Op::kSoftmax, {&x}, Along(0))->Bytes(), soft);
  EXPECT_EQ(RunOp(Op::kLayerNorm, {&x, nullptr, nullptr}, a)->Bytes(), norm);
  SetThreads(0);
  EXPECT_EQ(Memory().live(), 0);
}

}  // namespace
}  // namespace tensord::cpu
