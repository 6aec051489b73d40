#include <cmath>
#include <limits>

#include "case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/text.h"

namespace tensord::cpu {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();

int64_t At(const Dims& list, size_t i, int64_t otherwise) { return list.empty() ? otherwise : list[i]; }

// Calls f(tap, place) for every tap of the window that reads inside x: `place` has the spatial coordinates.
template <class F>
void ForTaps(const Dims& window, const WindowAttributes& a, const Dims& strides, const std::vector<int64_t>& output,
             const Dims& space, F f) {
  for (int64_t t = 0; t < NumElements(window); ++t) {
    const std::vector<int64_t> tap = Unravel(t, window);
    std::vector<int64_t> place(space.size());
    bool inside = true;
    for (size_t d = 0; d < space.size(); ++d) {
      place[d] = output[d + 2] * strides[d] + tap[d] * At(a.dilations, d, 1) - At(a.pads_begin, d, 0);
      inside = inside && place[d] >= 0 && place[d] < space[d];
    }
    if (inside) f(t, place);
  }
}

std::string Text(const TestTensor& x, const WindowAttributes& a) {
  return StrCat(x.view().type().ToString(), " sizes [", StrJoin(a.sizes, ","), "] strides [", StrJoin(a.strides, ","),
                "] dilations [", StrJoin(a.dilations, ","), "] pads [", StrJoin(a.pads_begin, ","), "] [",
                StrJoin(a.pads_end, ","), "] groups ", a.groups, a.ceil_mode ? " ceil" : "",
                a.count_pads ? " count_pads" : "");
}

void CheckConv(const TestTensor& x, const TestTensor& weight, const TestTensor* bias, const WindowAttributes& a) {
  SCOPED_TRACE(Text(x, a));
  const absl::StatusOr<TestTensor> out = RunOp(Op::kConv, {&x, &weight, bias}, a);
  ASSERT_TRUE(out.ok()) << out.status();
  const Dims window(weight.shape().begin() + 2, weight.shape().end());
  const Dims space(x.shape().begin() + 2, x.shape().end());
  Dims strides(space.size(), 1);
  if (!a.strides.empty()) strides = a.strides;
  const int64_t groups = a.groups == 0 ? 1 : a.groups;
  const int64_t channels = weight.shape()[1];
  const int64_t outs = weight.shape()[0] / groups;
  for (int64_t i = 0; i < out->elements(); ++i) {
    const std::vector<int64_t> at = Unravel(i, out->shape());
    long double sum = bias != nullptr ? bias->Get(at[1]) : 0;
    long double size = std::abs(sum);
    ForTaps(window, a, strides, at, space, [&](int64_t tap, const std::vector<int64_t>& place) {
      for (int64_t c = 0; c < channels; ++c) {
        std::vector<int64_t> from = {at[0], at[1] / outs * channels + c};
        from.insert(from.end(), place.begin(), place.end());
        const long double product =
            x.Get(Ravel(from, x.shape())) * weight.Get((at[1] * channels + c) * NumElements(window) + tap);
        sum += product;
        size += std::abs(product);
      }
    });
    const Dtype dtype = out->dtype();
    const long double tolerance = StorageEpsilon(dtype) * std::abs(sum) + ComputeEpsilon(dtype) * (size + 1) * 32;
    ASSERT_TRUE(Near(out->Get(i), sum, tolerance)) << "element " << i << " is " << out->Get(i) << ", expected " << sum;
  }
}

TEST(Conv, ShapesGroupsPadsAndDilations) {
  struct Case {
    Dims x, weight;
    WindowAttributes a;
  };
  std::vector<Case> cases;
  const auto add = [&](const Dims& x, const Dims& weight, const Dims& strides, const Dims& dilations, const Dims& begin,
                       const Dims& end, int64_t groups) {
    Case& c = cases.emplace_back();
    c.x = x;
    c.weight = weight;
    c.a.strides = strides;
    c.a.dilations = dilations;
    c.a.pads_begin = begin;
    c.a.pads_end = end;
    c.a.groups = groups;
  };
  add({2, 3, 10}, {4, 3, 3}, {}, {}, {}, {}, 0);
  add({1, 4, 11}, {6, 2, 3}, {2}, {2}, {1}, {3}, 2);
  add({2, 3, 8, 9}, {5, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}, 1);
  add({1, 3, 9, 8}, {4, 3, 1, 1}, {}, {}, {}, {}, 1);
  add({2, 4, 9, 8}, {4, 1, 3, 2}, {2, 1}, {1, 2}, {0, 2}, {2, 1}, 4);
  add({1, 6, 7, 7}, {4, 3, 7, 7}, {}, {}, {}, {}, 2);
  add({1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1}, {0, 1, 2}, 1);
  add({1, 2, 3, 3, 4, 3}, {2, 2, 2, 2, 2, 2}, {1, 1, 2, 1}, {}, {1, 0, 0, 1}, {0, 0, 1, 0}, 1);
  add({1, 1, 4, 4}, {1, 1, 3, 3}, {3, 3}, {}, {4, 4}, {4, 4}, 1);  // windows in the padding alone
  std::mt19937 random(51);
  for (const Case& c : cases) {
    for (const Dtype dtype : Reals()) {
      for (const bool with_bias : {false, true}) {
        const Lay lay = Lays()[random() % Lays().size()];
        TestTensor x(dtype, c.x, lay, random);
        TestTensor weight(dtype, c.weight, lay, random);
        TestTensor bias(dtype, {c.weight[0]}, lay, random);
        x.Fill(random, -1, 1);
        weight.Fill(random, -1, 1);
        bias.Fill(random, -1, 1);
        CheckConv(x, weight, with_bias ? &bias : nullptr, c.a);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Conv, LargerOnesInPieces) {
  std::mt19937 random(52);
  WindowAttributes a;
  a.pads_begin = {1, 1};
  a.pads_end = {1, 1};
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64}) {
    TestTensor x(dtype, {1, 40, 40, 41}, Lay::kContiguous, random);
    TestTensor weight(dtype, {3, 40, 3, 3}, Lay::kContiguous, random);
    x.Fill(random, -1, 1);
    weight.Fill(random, -1, 1);
    CheckConv(x, weight, nullptr, a);
  }
}

TEST(Conv, TrueFloat32) {
  TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {1, 1, 8, 8});
  for (int64_t i = 0; i < 64; ++i) x.Set(i, 1);
  const TestTensor weight = TestTensor::Of(Dtype::kFloat32, {1, 1, 1, 1}, {2049});
  EXPECT_THAT(RunOp(Op::kConv, {&x, &weight}, WindowAttributes{})->Values(), Each(2049));
}

TEST(Conv, EmptyBatch) {
  const TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {0, 2, 4});
  const TestTensor weight = TestTensor::Contiguous(Dtype::kFloat32, {3, 2, 3});
  EXPECT_THAT(RunOp(Op::kConv, {&x, &weight}, WindowAttributes{})->shape(), ElementsAre(0, 3, 2));
}

void CheckPool(Op op, const TestTensor& x, const WindowAttributes& a) {
  SCOPED_TRACE(StrCat(RowOf(op).name, " ", Text(x, a)));
  const absl::StatusOr<TestTensor> out = RunOp(op, {&x}, a);
  ASSERT_TRUE(out.ok()) << out.status();
  const Dims space(x.shape().begin() + 2, x.shape().end());
  const Dims strides = a.strides.empty() ? a.sizes : a.strides;
  for (int64_t i = 0; i < out->elements(); ++i) {
    const std::vector<int64_t> at = Unravel(i, out->shape());
    long double best = -std::numeric_limits<long double>::infinity();
    long double sum = 0;
    long double size = 0;
    int64_t count = 0;
    ForTaps(a.sizes, a, strides, at, space, [&](int64_t, const std::vector<int64_t>& place) {
      std::vector<int64_t> from = {at[0], at[1]};
      from.insert(from.end(), place.begin(), place.end());
      const long double value = x.Get(Ravel(from, x.shape()));
      if (!(value <= best) && !std::isnan(best)) best = value;
      sum += value;
      size += std::abs(value);
      ++count;
    });
    long double want = best;
    if (op == Op::kAvgPool) {
      if (a.count_pads) {
        count = 1;
        for (size_t d = 0; d < space.size(); ++d) {
          const int64_t begin = at[d + 2] * strides[d] - At(a.pads_begin, d, 0);
          count *= std::min(begin + a.sizes[d], space[d] + At(a.pads_end, d, 0)) - begin;
        }
      }
      want = sum / static_cast<long double>(count);
    }
    const long double eps = ComputeEpsilon(x.dtype());
    const long double tolerance = op == Op::kMaxPool ? 0
                                                     : StorageEpsilon(x.dtype()) * std::abs(want) +
                                                           16 * eps * size / static_cast<long double>(count);
    ASSERT_TRUE(Near(out->Get(i), want, tolerance))
        << "element " << i << " is " << out->Get(i) << ", expected " << want;
  }
}

TEST(Pool, SizesStridesPadsAndCeil) {
  ForEachIsa([] {
    std::mt19937 random(53);
    for (const Dtype dtype : Reals()) {
      for (int turn = 0; turn < 60; ++turn) {
        const size_t spatial = 1 + random() % 3;
        Dims shape = {2, 3};
        WindowAttributes a;
        for (size_t d = 0; d < spatial; ++d) {
          shape.push_back(7 + static_cast<int64_t>(random() % 6));
          a.sizes.push_back(1 + static_cast<int64_t>(random() % 4));
          a.strides.push_back(1 + static_cast<int64_t>(random() % 3));
          a.pads_begin.push_back(static_cast<int64_t>(random()) % ((a.sizes[d] + 1) / 2));
          a.pads_end.push_back(static_cast<int64_t>(random()) % ((a.sizes[d] + 1) / 2));
        }
        if (turn % 5 == 0) a.strides.clear();
        a.ceil_mode = random() % 2;
        TestTensor x(dtype, shape, Lays()[random() % Lays().size()], random);
        x.Fill(random, -2, 3);
        WindowAttributes max = a;
        if (turn % 3 == 0) max.dilations.assign(spatial, 2);
        CheckPool(Op::kMaxPool, x, max);
        WindowAttributes average = a;
        average.count_pads = random() % 2;
        CheckPool(Op::kAvgPool, x, average);
        if (::testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST(Pool, GlobalAndLarge) {
  std::mt19937 random(54);
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kFloat64, Dtype::kFloat16}) {
    TestTensor x(dtype, {2, 30, 30, 41}, Lay::kContiguous, random);
    x.Fill(random, -2, 3);
    WindowAttributes a;
    a.sizes = {30, 41};
    CheckPool(Op::kMaxPool, x, a);
    CheckPool(Op::kAvgPool, x, a);
    a.sizes = {2, 2};
    CheckPool(Op::kMaxPool, x, a);
    CheckPool(Op::kAvgPool, x, a);
  }
}

TEST(Pool, WindowsFarLargerThanTheInputCostNoMore) {
  constexpr int64_t kFar = int64_t{1} << 39;
  TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {1, 1, 5, 7});
  for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, i);
  WindowAttributes a;
  a.sizes = {2 * kFar, 2 * kFar};
  a.strides = {1, 1};
  a.pads_begin = a.pads_end = {kFar, kFar};
  const absl::StatusOr<TestTensor> max = RunOp(Op::kMaxPool, {&x}, a);
  ASSERT_TRUE(max.ok()) << max.status();
  EXPECT_EQ(max->shape(), Dims({1, 1, 6, 8}));
  for (int64_t i = 0; i < max->elements(); ++i) EXPECT_EQ(max->Get(i), 34) << i;
  const absl::StatusOr<TestTensor> mean = RunOp(Op::kAvgPool, {&x}, a);
  ASSERT_TRUE(mean.ok()) << mean.status();
  for (int64_t i = 0; i < mean->elements(); ++i) EXPECT_EQ(mean->Get(i), 17) << i;
}

TEST(Pool, DilatedWindowsAlongShortRows) {
  std::mt19937 random(57);
  TestTensor x(Dtype::kFloat32, {2, 3, 30, 41}, Lay::kContiguous, random);
  x.Fill(random, -2, 3);
  WindowAttributes a;
  a.sizes = {6, 13};
  a.dilations = {5, 3};
  a.pads_begin = a.pads_end = {3, 6};
  CheckPool(Op::kMaxPool, x, a);
}

TEST(Pool, NanStays) {
  ForEachIsa([] {
    TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {1, 1, 4, 40});
    x.Set(45, kNan);
    WindowAttributes a;
    a.sizes = {2, 2};
    const TestTensor out = *RunOp(Op::kMaxPool, {&x}, a);
    for (int64_t i = 0; i < out.elements(); ++i) EXPECT_EQ(std::isnan(out.Get(i)), i == 2) << i;
    a.sizes = {4, 40};
    EXPECT_TRUE(std::isnan(RunOp(Op::kMaxPool, {&x}, a)->Get(0)));
  });
}

TEST(Window, MemoryIsGivenBack) {
  std::mt19937 random(55);
  for (const Dtype dtype : Reals()) {
    TestTensor x(dtype, {1, 4, 20, 20}, Lay::kPermuted, random);
    TestTensor weight(dtype, {4, 4, 3, 3}, Lay::kPermuted, random);
    x.Fill(random, -1, 1);
    weight.Fill(random, -1, 1);
    Memory().fail = true;
    const absl::Status status = RunOp(Op::kConv, {&x, &weight}, WindowAttributes{}).status();
    Memory().fail = false;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_TRUE(RunOp(Op::kConv, {&x, &weight}, WindowAttributes{}).ok());
  }
  EXPECT_EQ(Memory().live(), 0);
}

}  // namespace
}  // namespace tensord::cpu
