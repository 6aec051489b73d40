#include <cmath>
#include <limits>

#include "case.h"
#include "kernels/core/text.h"

namespace tensord::cuda {
namespace {

long double MaxOf(const Array& x) {
  long double max = x.At(0).real;
  for (int64_t i = 1; i < x.size(); ++i) max = std::fmax(max, x.At(i).real);
  return max;
}

class WindowTest : public FamilyTest {
 protected:
  static std::string Text(const WindowAttributes& a) {
    return StrCat(" sizes [", StrJoin(a.sizes, ","), "] strides [", StrJoin(a.strides, ","), "] dilations [",
                  StrJoin(a.dilations, ","), "] pads [", StrJoin(a.pads_begin, ","), "] [", StrJoin(a.pads_end, ","),
                  "] groups ", a.groups, a.ceil_mode ? " ceil" : "", a.count_pads ? " count_pads" : "");
  }
  void CheckConv(const Tensor& x, const Tensor& weight, const Tensor* bias, const WindowAttributes& a) {
    SCOPED_TRACE(StrCat(x.Text(), " weight ", weight.Text(), Text(a)));
    const Array expected = oracle::Conv(x.host, weight.host, bias != nullptr ? &bias->host : nullptr, a);
    const auto depth = static_cast<double>(weight.host.size()) / static_cast<double>(weight.shape()[0]);
    const double absolute = 2 * ComputeEpsilon(x.view.dtype) * (depth + 1) * Largest(x.host) * Largest(weight.host);
    ASSERT_TRUE(Agrees(Run(Op::kConv, {&x, &weight, bias}, a), expected, 1, absolute));
  }
  void CheckPool(Op op, const Tensor& x, const WindowAttributes& a) {
    SCOPED_TRACE(StrCat(RowOf(op).name, " ", x.Text(), Text(a)));
    const Array expected = oracle::Pool(RowOf(op).name, x.host, a);
    const bool max = op == Op::kMaxPool;
    const double absolute = max ? 0 : 16 * ComputeEpsilon(x.view.dtype) * Largest(x.host);
    ASSERT_TRUE(Agrees(Run(op, {&x}, a), expected, max ? 0 : 1, absolute));
  }
};

TEST_P(WindowTest, ConvOfAllShapesGroupsPadsAndDilations) {
  struct Case {
    Dims x, weight, strides, dilations, begin, end;
    int64_t groups;
  };
  const std::vector<Case> cases = {
      {{2, 3, 10}, {4, 3, 3}, {}, {}, {}, {}, 0},
      {{1, 4, 11}, {6, 2, 3}, {2}, {2}, {1}, {3}, 2},
      {{2, 3, 8, 9}, {9, 3, 3, 3}, {}, {}, {1, 1}, {1, 1}, 1},
      {{1, 9, 9, 8}, {17, 9, 1, 1}, {}, {}, {}, {}, 1},
      {{2, 4, 9, 8}, {4, 1, 3, 2}, {2, 1}, {1, 2}, {0, 2}, {2, 1}, 4},  // depthwise
      {{1, 6, 7, 7}, {18, 3, 7, 7}, {}, {}, {}, {}, 2},
      {{2, 6, 7, 6}, {20, 3, 2, 3}, {2, 1}, {1, 2}, {2, 1}, {1, 0}, 2},  // tiles, two groups
      {{2, 5, 7, 7}, {40, 5, 3, 3}, {}, {}, {1, 1}, {1, 1}, 1},          // large tiles
      {{1, 2, 5, 6, 7}, {3, 2, 2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1}, {0, 1, 2}, 1},
      {{1, 2, 5, 4, 5}, {9, 2, 2, 3, 3}, {1, 2, 1}, {2, 1, 1}, {1, 0, 1}, {0, 1, 2}, 1},
      {{1, 2, 3, 3, 4, 3}, {2, 2, 2, 2, 2, 2}, {1, 1, 2, 1}, {}, {1, 0, 0, 1}, {0, 0, 1, 0}, 1},
      {{1, 1, 2, 3, 2, 3, 3}, {2, 1, 2, 2, 1, 2, 2}, {}, {1, 2, 1, 1, 1}, {1, 1, 0, 0, 1}, {1, 1, 0, 0, 0}, 1},
      {{1, 1, 4, 4}, {1, 1, 3, 3}, {3, 3}, {}, {4, 4}, {4, 4}, 1},  // windows in the padding alone
      {{1, 1, 4, 4}, {9, 1, 3, 3}, {3, 3}, {}, {4, 4}, {4, 4}, 1},
  };
  for (const Case& c : cases) {
    WindowAttributes a;
    a.strides = c.strides;
    a.dilations = c.dilations;
    a.pads_begin = c.begin;
    a.pads_end = c.end;
    a.groups = c.groups;
    for (const Dtype dtype : kReals) {
      const Lay lay = AnyLay();
      const Tensor x = Make(dtype, c.x, lay, {-1, 1});
      const Tensor weight = Make(dtype, c.weight, lay, {-1, 1});
      const Tensor bias = Make(dtype, {c.weight[0]}, lay, {-1, 1});
      CheckConv(x, weight, random()() % 2 == 0 ? &bias : nullptr, a);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WindowTest, ConvInTrueFloat32) {
  const Tensor x = Of(Dtype::kFloat32, {1, 1, 8, 8}, std::vector<long double>(64, 1));
  for (const int64_t outs : {1, 10}) {
    const Tensor weight =
        Of(Dtype::kFloat32, {outs, 1, 1, 1}, std::vector<long double>(static_cast<size_t>(outs), 2049));
    const Array out = *Run(Op::kConv, {&x, &weight}, WindowAttributes{});
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.At(i).real, 2049);
  }
}

TEST_P(WindowTest, PoolOfAllSizesStridesPadsAndCeil) {
  for (const Dtype dtype : kReals) {
    for (int turn = 0; turn < 30; ++turn) {
      const size_t spatial = 1 + random()() % 3;
      Dims shape = {2, 3};
      WindowAttributes a;
      for (size_t d = 0; d < spatial; ++d) {
        shape.push_back(7 + static_cast<int64_t>(random()() % 4));
        a.sizes.push_back(1 + static_cast<int64_t>(random()() % 4));
        a.strides.push_back(1 + static_cast<int64_t>(random()() % 3));
        a.pads_begin.push_back(static_cast<int64_t>(random()()) % ((a.sizes[d] + 1) / 2));
        a.pads_end.push_back(static_cast<int64_t>(random()()) % ((a.sizes[d] + 1) / 2));
      }
      if (turn % 5 == 0) a.strides.clear();
      a.ceil_mode = random()() % 2 == 0;
      const Tensor x = Make(dtype, shape, AnyLay(), {-2, 3});
      WindowAttributes max = a;
      if (turn % 3 == 0) max.dilations.assign(spatial, 2);
      CheckPool(Op::kMaxPool, x, max);
      WindowAttributes average = a;
      average.count_pads = random()() % 2 == 0;
      CheckPool(Op::kAvgPool, x, average);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WindowTest, PoolOfManyAxes) {
  for (const Dtype dtype : kReals) {
    for (const size_t spatial : {4, 5, 6}) {
      Dims shape = {1, 2};
      WindowAttributes a;
      for (size_t d = 0; d < spatial; ++d) {
        shape.push_back(2 + static_cast<int64_t>(random()() % 2));
        a.sizes.push_back(1 + static_cast<int64_t>(random()() % 2));
        a.strides.push_back(1);
        a.pads_begin.push_back(a.sizes[d] - 1);
        a.pads_end.push_back(0);
      }
      const Tensor x = Make(dtype, shape, AnyLay(), {-2, 3});
      CheckPool(Op::kMaxPool, x, a);
      CheckPool(Op::kAvgPool, x, a);
      a.count_pads = true;
      CheckPool(Op::kAvgPool, x, a);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WindowTest, PoolOverAllAndOverLongWindows) {
  for (const Dtype dtype : kReals) {
    const Tensor x = Make(dtype, {2, 3, 9, 41}, AnyLay(), {-2, 3});
    for (const Dims& sizes : {Dims{9, 41}, Dims{2, 2}, Dims{9, 40}, Dims{1, 33}, Dims{3, 17}}) {
      WindowAttributes a;
      a.sizes = sizes;
      a.strides = {1, 1};
      CheckPool(Op::kMaxPool, x, a);
      CheckPool(Op::kAvgPool, x, a);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(WindowTest, NanStays) {
  Array array = Array::Zeros(Dtype::kFloat32, {1, 1, 4, 40});
  array.Set(45, Number::Real(std::numeric_limits<long double>::quiet_NaN()));
  const Tensor x = Of(array);
  WindowAttributes a;
  a.sizes = {2, 2};
  const Array out = *Run(Op::kMaxPool, {&x}, a);
  for (int64_t i = 0; i < out.size(); ++i) EXPECT_EQ(std::isnan(out.At(i).real), i == 2) << i;
  a.sizes = {4, 40};
  EXPECT_TRUE(std::isnan(Run(Op::kMaxPool, {&x}, a)->At(0).real));
}

TEST_P(WindowTest, StepsBeyondReasonAreRefused) {
  const Tensor x = Make(Dtype::kFloat32, {1, 1, 4}, Lay::kContiguous);
  WindowAttributes a;
  a.sizes = {int64_t{1} << 51};
  a.pads_end = {(int64_t{1} << 51) - 4};
  EXPECT_EQ(Run(Op::kMaxPool, {&x}, a).status().code(), absl::StatusCode::kInvalidArgument);
  // As far as they go, the taps outside are not gone through.
  a.sizes = {int64_t{1} << 50};
  a.pads_begin = {(int64_t{1} << 50) - 4};
  a.pads_end = {0};
  a.strides = {1};
  const Array out = *Run(Op::kMaxPool, {&x}, a);
  EXPECT_TRUE(Agrees(out, Array::Of(Dtype::kFloat32, {1, 1, 1}, {Number::Real(MaxOf(x.host))})));
}

TEST_P(WindowTest, NothingAndLackOfMemory) {
  const Tensor none = Of(Array::Zeros(Dtype::kFloat32, {0, 2, 4}));
  const Tensor weight = Make(Dtype::kFloat32, {3, 2, 3}, Lay::kContiguous);
  const absl::StatusOr<Array> out = Run(Op::kConv, {&none, &weight}, WindowAttributes{});
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(out->type.shape, (Dims{0, 3, 2}));
  const Tensor x = Make(Dtype::kFloat32, {1, 2, 9}, Lay::kReversed);
  Tensor turned = x;
  turned.view.data = static_cast<float*>(x.memory.get()) + 8;
  turned.view.shape = {1, 1, 9};
  turned.view.strides = {9, 9, -1};
  WindowAttributes a;
  a.sizes = {2};
  scratch().fail_after = 0;
  EXPECT_EQ(Run(Op::kMaxPool, {&turned}, a).status().code(), absl::StatusCode::kResourceExhausted);
  scratch().fail_after = -1;
  EXPECT_TRUE(Run(Op::kMaxPool, {&turned}, a).ok());
}

TENSORD_EVERY_ORDER(WindowTest);

}  // namespace
}  // namespace tensord::cuda
