#include <cmath>
#include <limits>

#include "case.h"
#include "kernels/core/text.h"

namespace tensord::cuda {
namespace {

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kInf = std::numeric_limits<long double>::infinity();

class ReduceTest : public FamilyTest {
 protected:
  static ReduceAttributes Along(std::initializer_list<int32_t> axes) {
    ReduceAttributes a;
    for (const int32_t axis : axes) a.axes.push_back(axis);
    return a;
  }
  static ReduceAttributes Everything() {
    ReduceAttributes a;
    a.all_axes = true;
    return a;
  }
  static bool Takes(Op op, Dtype dtype) {
    if (op == Op::kMean || op == Op::kVar || op == Op::kStd) return IsReal(dtype);
    const bool any_dtype = op == Op::kAny || op == Op::kAll || op == Op::kSum || op == Op::kProd;
    return dtype != Dtype::kBool || any_dtype;
  }
  static Range RangeFor(Op op, Dtype dtype) {
    if (op == Op::kProd && IsReal(dtype)) return {0.75, 1.25};
    if (op == Op::kArgMax || op == Op::kArgMin) return {0, 9};  // ties
    if (op == Op::kAny || op == Op::kAll) return {0, 3};
    if (!IsReal(dtype)) return {0, 0};
    return {};
  }

  void Check(Op op, const Tensor& x, const ReduceAttributes& a) {
    SCOPED_TRACE(StrCat(RowOf(op).name, " ", x.Text(), " axes [", StrJoin(a.axes, ","), a.all_axes ? "all" : "", "]"));
    ReduceAttributes plain = a;
    const auto rank = static_cast<int32_t>(x.shape().size());
    for (int32_t& axis : plain.axes) axis = axis < 0 ? axis + rank : axis;
    const Array expected = oracle::Reduce(RowOf(op).name, x.host, plain);
    const auto count = static_cast<double>(x.host.size()) / static_cast<double>(std::max<int64_t>(1, expected.size()));
    const double eps = ComputeEpsilon(x.view.dtype);
    const double size = Largest(x.host);
    double ulps = 1;
    double absolute = 0;
    if (op == Op::kSum) absolute = 4 * eps * size * count;
    if (op == Op::kMean) absolute = 4 * eps * size;
    if (op == Op::kProd) ulps = 64;
    if (op == Op::kVar || op == Op::kStd) {
      ulps = 16;
      absolute = 16 * eps * size * size;
    }
    if (expected.type.dtype == Dtype::kInt64 || expected.type.dtype == Dtype::kBool) ulps = 0;
    ASSERT_TRUE(Agrees(Run(op, {&x}, a), expected, ulps, absolute));
  }
};

constexpr Op kOps[] = {Op::kSum, Op::kProd,   Op::kMean,   Op::kMax, Op::kMin, Op::kAny,
                       Op::kAll, Op::kArgMax, Op::kArgMin, Op::kVar, Op::kStd};

TEST_P(ReduceTest, EveryOpDtypeAndLayout) {
  for (const Op op : kOps) {
    for (const Dtype dtype : kEveryDtype) {
      if (!Takes(op, dtype)) continue;
      for (const Lay lay : kLays) {
        const Tensor x = Make(dtype, {5, 1, 7, 11}, lay, RangeFor(op, dtype));
        const bool position = op == Op::kArgMax || op == Op::kArgMin;
        ReduceAttributes a = Everything();
        if (position && random()() % 4 != 0) a = Along({static_cast<int32_t>(random()() % 4)});
        if (!position && random()() % 4 != 0) {
          a = Along({});
          for (int32_t d = 0; d < 4; ++d) {
            if (random()() % 2 == 0) a.axes.push_back(random()() % 2 == 0 ? d : d - 4);
          }
        }
        a.keepdims = random()() % 2 == 0;
        if (position) a.last_index = random()() % 2 == 0;
        if (op == Op::kVar || op == Op::kStd) a.correction = static_cast<double>(random()() % 2);
        Check(op, x, a);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, EveryFormOfTheWork) {
  struct Case {
    Dims shape;
    ReduceAttributes a;
  };
  const std::vector<Case> cases = {
      {{9000}, Everything()},
      {{3, 5000}, Along({1})},
      {{5000, 3}, Along({0})},
      {{4100, 1}, Along({0})},
      {{40, 300}, Along({0})},
      {{30, 400}, Along({1})},
      {{70, 33}, Along({0})},
      {{33, 1025}, Along({1})},
      {{9, 31}, Along({1})},
      {{9, 33}, Along({1})},
      {{300, 3}, Along({1})},
      {{300, 2}, Along({1})},
      {{17, 15, 33}, Along({1})},
      {{17, 5, 33}, Along({0, 2})},
      {{9, 3, 700}, Along({0, 2})},
      {{2, 4500, 2}, Along({1})},
      {{3, 600, 5}, Along({1})},
      {{700, 2, 3}, Along({0})},
      {{1, 1, 1}, Everything()},
      {{4, 5}, Along({})},
      {{}, Everything()},
      {{7, 260}, Along({0})},
      {{2, 3, 4, 5, 6}, Along({1, 3})},
      {{257, 256}, Along({0})},
  };
  for (const Case& c : cases) {
    for (const Op op : {Op::kSum, Op::kMax, Op::kArgMin, Op::kVar, Op::kAll, Op::kProd}) {
      if (op == Op::kArgMin && c.a.axes.size() != 1 && !c.a.all_axes) continue;
      const Dtype dtypes[] = {Dtype::kFloat32, Dtype::kInt16, Dtype::kFloat16};
      const Dtype dtype = op == Op::kVar || op == Op::kProd ? Dtype::kFloat32 : dtypes[random()() % 3];
      if (c.shape.size() == 1 && op == Op::kProd) continue;  // overflows
      Tensor x = Make(dtype, c.shape, random()() % 2 == 0 ? Lay::kContiguous : AnyLay(), RangeFor(op, dtype));
      ReduceAttributes a = c.a;
      if (op == Op::kArgMin) a.last_index = random()() % 2 == 0;
      Check(op, x, a);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(ReduceTest, LongAxesKeepCounting) {
  // A sum one by one would stop at 2^11 in float16 and lose a bit every doubling in float32.
  const Tensor halves = Of(Dtype::kFloat16, {1, 30000}, std::vector<long double>(30000, 1));
  EXPECT_TRUE(Agrees(Run(Op::kSum, {&halves}, Along({1})), Array::Of(Dtype::kFloat16, {1}, {Number::Real(30000)})));
  const int64_t n = 200000;
  const Tensor tenths = Of(Dtype::kFloat32, {n}, std::vector<long double>(n, 0.1L));
  const Array sum = *Run(Op::kSum, {&tenths}, Everything());
  const auto want = static_cast<double>(static_cast<float>(0.1L)) * static_cast<double>(n);
  EXPECT_NEAR(static_cast<double>(sum.At(0).real), want, want * 2e-7);
}

TEST_P(ReduceTest, TiesGoToTheFirst) {
  const Tensor x = Of(Dtype::kInt64, {2, 5}, {2, 3, 0, 3, 3, 1, 3, 1, 3, 1});
  const auto integers = [](std::vector<int64_t> values) {
    std::vector<Number> all;
    for (const int64_t v : values) all.push_back(Number::Integer(v));
    return Array::Of(Dtype::kInt64, {static_cast<int64_t>(values.size())}, all);
  };
  EXPECT_TRUE(Agrees(Run(Op::kArgMax, {&x}, Along({1})), integers({1, 1})));
  EXPECT_TRUE(Agrees(Run(Op::kArgMin, {&x}, Along({1})), integers({2, 0})));
  ReduceAttributes last = Along({1});
  last.last_index = true;
  EXPECT_TRUE(Agrees(Run(Op::kArgMax, {&x}, last), integers({4, 3})));
  const Tensor many = Of(Dtype::kFloat32, {9001}, std::vector<long double>(9001, 1));
  EXPECT_TRUE(Agrees(Run(Op::kArgMax, {&many}, Along({0})), Array::Of(Dtype::kInt64, {}, {Number::Integer(0)})));
  last = Along({0});
  last.last_index = true;
  EXPECT_TRUE(Agrees(Run(Op::kArgMax, {&many}, last), Array::Of(Dtype::kInt64, {}, {Number::Integer(9000)})));
}

TEST_P(ReduceTest, NanWins) {
  for (const Dtype dtype : kReals) {
    for (const int64_t n : {3, 9, 100, 5000}) {
      for (const int64_t columns : {1, 9}) {
        Array values = Array::Zeros(dtype, {n, columns});
        for (int64_t i = 0; i < values.size(); ++i) values.Set(i, Number::Real(static_cast<long double>(i % 7) - 3));
        values.Set(n / 2 * columns, Number::Real(kNan));
        values.Set((n - 1) * columns, Number::Real(kNan));
        const Tensor x = Of(values);
        for (const Op op : {Op::kMax, Op::kMin, Op::kArgMax, Op::kArgMin, Op::kAny, Op::kAll}) {
          Check(op, x, Along({0}));
          if (HasFatalFailure()) return;
        }
        for (const Op op : {Op::kSum, Op::kMean, Op::kVar}) {
          const Array got = *Run(op, {&x}, Along({0}));
          EXPECT_TRUE(std::isnan(got.At(0).real)) << RowOf(op).name << " " << x.Text();
          if (columns > 1) {
            EXPECT_FALSE(std::isnan(got.At(1).real)) << RowOf(op).name << " " << x.Text();
          }
        }
      }
    }
  }
}

TEST_P(ReduceTest, ExtremesOfEveryDtype) {
  for (const Dtype dtype : kEveryDtype) {
    if (dtype == Dtype::kBool) continue;
    std::vector<Number> values = oracle::Interesting(dtype);
    std::erase_if(values, [](const Number& v) { return v.is_real && std::isnan(v.real); });
    const Tensor x = Of(Array::Of(dtype, {static_cast<int64_t>(values.size())}, values));
    for (const Op op : {Op::kMax, Op::kMin, Op::kArgMax, Op::kArgMin}) {
      Check(op, x, Along({0}));
      if (HasFatalFailure()) return;
    }
  }
  const Tensor infinite = Of(Dtype::kFloat32, {2, 2}, {-kInf, -kInf, kInf, kInf});
  EXPECT_TRUE(Agrees(Run(Op::kMax, {&infinite}, Along({1})),
                     Array::Of(Dtype::kFloat32, {2}, {Number::Real(-kInf), Number::Real(kInf)})));
}

TEST_P(ReduceTest, IntegersWrap) {
  const Tensor bytes = Of(Dtype::kInt8, {3}, {127, 127, -128});
  EXPECT_TRUE(Agrees(Run(Op::kSum, {&bytes}, Everything()), Array::Of(Dtype::kInt64, {}, {Number::Integer(126)})));
  ReduceAttributes narrow = Everything();
  narrow.dtype = Dtype::kInt8;
  const Tensor more = Of(Dtype::kInt8, {2}, {127, 2});
  EXPECT_TRUE(Agrees(Run(Op::kSum, {&more}, narrow), Array::Of(Dtype::kInt8, {}, {Number::Integer(-127)})));
  const Tensor wide = Of(Dtype::kUint64, {2}, {18446744073709551615.0L, 2});
  EXPECT_TRUE(Agrees(Run(Op::kSum, {&wide}, Everything()), Array::Of(Dtype::kUint64, {}, {Number::Integer(1)})));
}

TEST_P(ReduceTest, SumInAnotherDtype) {
  for (const auto& [from, to] : std::vector<std::pair<Dtype, Dtype>>{{Dtype::kInt32, Dtype::kFloat32},
                                                                     {Dtype::kFloat32, Dtype::kInt64},
                                                                     {Dtype::kFloat16, Dtype::kFloat64},
                                                                     {Dtype::kFloat64, Dtype::kFloat32},
                                                                     {Dtype::kBool, Dtype::kInt32}}) {
    const Tensor x = Make(from, {13, 7}, Lay::kAnyhow, {0, 20});
    for (const Op op : {Op::kSum, Op::kProd}) {
      ReduceAttributes a = Along({0});
      a.dtype = to;
      if (op == Op::kProd && IsReal(to)) continue;
      const Array expected = oracle::Reduce(RowOf(op).name, x.host, a);
      EXPECT_TRUE(Agrees(Run(op, {&x}, a), expected, 2, 1e-4)) << x.Text() << " to " << DtypeName(to);
    }
  }
}

TEST_P(ReduceTest, NoElements) {
  for (const Op op : {Op::kSum, Op::kProd, Op::kMean, Op::kVar, Op::kStd, Op::kAny, Op::kAll}) {
    for (const Dims& shape : {Dims{3, 0}, Dims{0, 3}, Dims{0}, Dims{2, 0, 3}}) {
      const Tensor x = Of(Array::Zeros(Dtype::kFloat32, shape));
      for (int32_t axis = 0; axis < static_cast<int32_t>(shape.size()); ++axis) {
        Check(op, x, Along({axis}));
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST_P(ReduceTest, VarianceFarFromZero) {
  std::vector<long double> values(3000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = 10000 + static_cast<long double>(i % 3);
  const Tensor x = Of(Dtype::kFloat32, {3000}, values);
  EXPECT_NEAR(static_cast<double>(Run(Op::kVar, {&x}, Everything())->At(0).real), 2.0 / 3, 1e-5);
}

TEST_P(ReduceTest, SameBitsWhateverTheOrder) {
  const Tensor x = Make(Dtype::kFloat32, {3, 6000}, Lay::kContiguous);
  const Array first = *Run(Op::kSum, {&x}, Along({1}));
  for (const auto order : {emulated::Order::kAscending, emulated::Order::kDescending, emulated::Order::kRandom}) {
    emulated::SetOrder(order, 5);
    EXPECT_EQ(Run(Op::kSum, {&x}, Along({1}))->bytes, first.bytes);
  }
}

TEST_P(ReduceTest, LackOfMemoryIsSaid) {
  const Tensor x = Make(Dtype::kFloat32, {2, 9000}, Lay::kContiguous);
  for (const int64_t after : {0, 1}) {
    scratch().fail_after = after;
    EXPECT_EQ(Run(Op::kVar, {&x}, Along({1})).status().code(), absl::StatusCode::kResourceExhausted);
    scratch().fail_after = -1;
    EXPECT_EQ(scratch().live(), 0);
  }
}

TENSORD_EVERY_ORDER(ReduceTest);

}  // namespace
}  // namespace tensord::cuda
