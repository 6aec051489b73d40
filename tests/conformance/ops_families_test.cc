// The families that look at more than one element, against the oracle, on every device.
#include <random>

#include "tests/conformance/harness.h"
#include "tests/oracle/families.h"

namespace tensord::conformance {
namespace {

using oracle::Array;

constexpr Dtype kReals[] = {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
constexpr Dtype kAll[] = {Dtype::kBool,     Dtype::kInt8,    Dtype::kInt16,  Dtype::kInt32,  Dtype::kInt64,
                          Dtype::kUint8,    Dtype::kUint16,  Dtype::kUint32, Dtype::kUint64, Dtype::kFloat16,
                          Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};

class FamiliesTest : public ConformanceTest {
 protected:
  // Runs on the CPU and on a device; both must agree with `expected`, and with each other to the bit.
  void Check(Op op, const std::vector<Array>& operands, const Attributes& attributes, const Array& expected,
             double ulps = 0, double absolute = 0) {
    std::string cpu;
    for (const std::string device : {"cpu", "cuda:0"}) {
      std::vector<TestSession::Operand> ids;
      std::vector<uint64_t> used;
      for (const Array& operand : operands) {
        used.push_back(session().Put(operand, device));
        ids.emplace_back(used.back());
      }
      const auto id = session().Run(op, ids, attributes);
      ASSERT_TRUE(id.ok()) << RowOf(op).name << " " << operands[0].type.ToString() << ": " << id.status();
      const Array got = session().MustGet(*id);
      EXPECT_EQ(oracle::Compare(got, expected, ulps, absolute), "")
          << RowOf(op).name << " " << operands[0].type.ToString() << " on " << device;
      if (device == std::string("cpu")) {
        cpu = got.bytes;
      } else if (!IsFloating(got.type.dtype)) {  // reals are held to the oracle on every device
        EXPECT_TRUE(cpu == got.bytes) << RowOf(op).name << ": the devices differ";
      }
      used.push_back(*id);
      session().Free(used);
    }
  }
};

TEST_P(FamiliesTest, Reductions) {
  const Op ops[] = {Op::kSum,    Op::kProd,   Op::kMax,  Op::kMin, Op::kAny, Op::kAll,
                    Op::kArgMax, Op::kArgMin, Op::kMean, Op::kVar, Op::kStd};
  const std::vector<Axes> axes_lists = {{0}, {1}, {2}, {0, 2}, {1, 2}, {}};
  size_t turn = 0;
  for (const Op op : ops) {
    const std::string_view name = RowOf(op).name;
    for (const Dtype dtype : kAll) {
      if (RowOf(op).types == TypeRule::kReal && !IsReal(dtype)) continue;
      if (dtype == Dtype::kBool && RowOf(op).types != TypeRule::kAnyToBool &&
          RowOf(op).types != TypeRule::kNumericToWide)
        continue;
      ReduceAttributes attributes;
      attributes.axes = axes_lists[turn++ % axes_lists.size()];
      if (name.starts_with("arg") && attributes.axes.size() > 1) attributes.axes = {1};
      attributes.all_axes = attributes.axes.empty();
      attributes.keepdims = turn % 2 == 0;
      if (op == Op::kVar || op == Op::kStd) attributes.correction = turn % 3 == 0 ? 1 : 0;
      // Sums of extremes have no accuracy to speak of; orders and truth values do.
      const bool extremes =
          name.starts_with("arg") || op == Op::kMax || op == Op::kMin || op == Op::kAny || op == Op::kAll;
      const Array x = oracle::Sample(dtype, {5, 7, 6}, turn, extremes || IsInteger(dtype));
      const Array expected = oracle::Reduce(name, x, attributes);
      const bool exact = !IsReal(expected.type.dtype) || extremes;
      // float16 products of many factors leave its range; the oracle says where.
      Check(op, {x}, attributes, expected, exact ? 0 : (op == Op::kProd ? 64 : 8), exact ? 0 : 1e-5);
    }
  }
}

TEST_P(FamiliesTest, ReductionsOfNothing) {
  const Array x = Array::Zeros(Dtype::kFloat32, {0, 3});
  for (const Op op : {Op::kSum, Op::kProd, Op::kAny, Op::kAll, Op::kMean, Op::kVar}) {
    ReduceAttributes attributes;
    attributes.axes = {0};
    Check(op, {x}, attributes, oracle::Reduce(RowOf(op).name, x, attributes));
  }
  const uint64_t id = session().Put(x, "cpu");
  ReduceAttributes attributes;
  attributes.axes = {0};
  for (const Op op : {Op::kMax, Op::kMin, Op::kArgMax, Op::kArgMin}) {
    EXPECT_EQ(session().Run(op, {id}, attributes).status().code(), absl::StatusCode::kInvalidArgument)
        << RowOf(op).name;
  }
}

TEST_P(FamiliesTest, LongSumsStayExact) {
  CreateAttributes create;
  create.spec = {{Dtype::kFloat32, {2'000'000, 2}}, "cpu"};
  const uint64_t ones = session().MustRun(Op::kOnes, {}, create);
  ReduceAttributes axis0;
  axis0.axes = {0};
  EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kSum, {ones}, axis0)),
                            ArrayOf(Dtype::kFloat32, {2}, {2e6, 2e6})),
            "");
  const uint64_t small = session().MustRun(Op::kMultiply, {ones, 0x1p-26});
  ReduceAttributes all;
  all.all_axes = true;
  EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kSum, {small}, all)),
                            ArrayOf(Dtype::kFloat32, {}, {4e6 * 0x1p-26}), 1),
            "");
}

TEST_P(FamiliesTest, Softmax) {
  for (const Op op : {Op::kSoftmax, Op::kLogSoftmax}) {
    for (const Dtype dtype : kReals) {
      for (const int axis : {0, 1, 2}) {
        ReduceAttributes attributes;
        attributes.axes = {axis};
        const Array x = oracle::Sample(dtype, {4, 5, 33}, static_cast<uint64_t>(axis), false);
        Check(op, {x}, attributes, oracle::Softmax(RowOf(op).name, x, axis), 8, 1e-6);
      }
    }
  }
}

TEST_P(FamiliesTest, SoftmaxAtItsExtremes) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ReduceAttributes last;
  last.axes = {-1};
  Check(
      Op::kSoftmax,
      {ArrayOf(Dtype::kFloat32, {5, 3}, {1000, 1000, 1000, 1e4, 0, -1e4, -inf, 0, -inf, -inf, -inf, -inf, 0, inf, 0})},
      last, ArrayOf(Dtype::kFloat32, {5, 3}, {1. / 3, 1. / 3, 1. / 3, 1, 0, 0, 0, 1, 0, nan, nan, nan, nan, nan, nan}),
      2);
  Check(Op::kLogSoftmax, {ArrayOf(Dtype::kFloat32, {2}, {0, -inf})}, last, ArrayOf(Dtype::kFloat32, {2}, {0, -inf}));
  Check(Op::kSoftmax, {ArrayOf(Dtype::kFloat16, {2}, {60000, 0})}, last, ArrayOf(Dtype::kFloat16, {2}, {1, 0}));
  Check(Op::kSoftmax, {Array::Zeros(Dtype::kFloat32, {2, 0})}, last, Array::Zeros(Dtype::kFloat32, {2, 0}));
}

TEST_P(FamiliesTest, Matmul) {
  struct Case {
    Dims a, b;
    bool transpose_a = false, transpose_b = false;
  };
  const std::vector<Case> cases = {{{5, 7}, {7, 3}},
                                   {{7, 5}, {7, 3}, true, false},
                                   {{5, 7}, {3, 7}, false, true},
                                   {{7}, {7, 3}},
                                   {{5, 7}, {7}},
                                   {{7}, {7}},
                                   {{4, 1, 5, 7}, {3, 7, 2}},
                                   {{2, 5, 7}, {7, 3}},
                                   {{5, 0}, {0, 5}},
                                   {{0, 3, 4}, {0, 4, 5}},
                                   {{33, 65}, {65, 17}}};
  size_t turn = 0;
  for (const Dtype dtype : kAll) {
    if (dtype == Dtype::kBool) continue;
    for (const Case& c : cases) {
      const Array a = oracle::Sample(dtype, c.a, ++turn, IsInteger(dtype));
      const Array b = oracle::Sample(dtype, c.b, turn + 77, IsInteger(dtype));
      MatmulAttributes attributes;
      attributes.transpose_a = c.transpose_a;
      attributes.transpose_b = c.transpose_b;
      const Array expected = oracle::Matmul(a, b, attributes);
      // Sums of products of both signs may cancel: what counts is the size of the terms.
      Check(Op::kMatmul, {a, b}, attributes, expected, 4, dtype == Dtype::kFloat64 ? 1e-12 : 1e-4);
    }
  }
}

TEST_P(FamiliesTest, IntegerMatmulIsExactAndFloat32IsTrue) {
  // 2^53 + 1: a detour through float64 would lose the one.
  const auto whole = [](int64_t v) { return oracle::Number::Integer(v); };
  const Array row = Array::Of(Dtype::kInt64, {1, 2}, {whole(9007199254740993), whole(1)});
  Check(Op::kMatmul, {row, ArrayOf(Dtype::kInt64, {2, 1}, {1, 1})}, {},
        Array::Of(Dtype::kInt64, {1, 1}, {whole(9007199254740994)}));
  Check(Op::kMatmul, {ArrayOf(Dtype::kInt32, {1, 1}, {65536}), ArrayOf(Dtype::kInt32, {1, 1}, {65536})}, {},
        ArrayOf(Dtype::kInt32, {1, 1}, {0}));
  Array diagonal = Array::Zeros(Dtype::kFloat32, {16, 16});
  for (int i = 0; i < 16; ++i) diagonal.Set(i * 17, oracle::Number::Real(2049));
  const Array ones = ArrayOf(Dtype::kFloat32, {16, 16}, std::vector<double>(256, 1));
  Check(Op::kMatmul, {diagonal, ones}, {}, ArrayOf(Dtype::kFloat32, {16, 16}, std::vector<double>(256, 2049)));
}

TEST_P(FamiliesTest, Linear) {
  for (const Dtype dtype : kReals) {
    const Array x = oracle::Sample(dtype, {2, 3, 7}, 1, false);
    const Array w = oracle::Sample(dtype, {5, 7}, 2, false);
    const Array b = oracle::Sample(dtype, {5}, 3, false);
    const double absolute = dtype == Dtype::kFloat64 ? 1e-12 : 1e-4;
    Check(Op::kLinear, {x, w, b}, {}, oracle::Linear(x, w, &b), 4, absolute);
    Check(Op::kLinear, {x, w}, {}, oracle::Linear(x, w, nullptr), 4, absolute);
  }
}

TEST_P(FamiliesTest, ConcatStackTakeWhere) {
  for (const Dtype dtype : kAll) {
    for (const int axis : {0, 1}) {
      const Array a = oracle::Sample(dtype, {3, 4}, 1);
      const Array b = oracle::Sample(dtype, {3, 4}, 2);
      const Array empty = Array::Zeros(dtype, axis == 0 ? Dims{0, 4} : Dims{3, 0});
      JoinAttributes join;
      join.axis = axis;
      Check(Op::kConcat, {a, empty, b}, join, oracle::Concat({a, empty, b}, axis));
      Check(Op::kStack, {a, b}, join, oracle::Stack({a, b}, axis));
      IndexAttributes index;
      index.axis = axis;
      const Array indices = ArrayOf(axis == 0 ? Dtype::kInt64 : Dtype::kInt8, {2, 2}, {0, -1, 2, 0});
      Check(Op::kTake, {a, indices}, index, oracle::Take(a, indices, axis));
    }
    const Array condition = oracle::Sample(Dtype::kBool, {3, 1}, 5);
    const Array a = oracle::Sample(dtype, {3, 4}, 6);
    const Array b = oracle::Sample(dtype, {1, 4}, 7);
    Check(Op::kWhere, {condition, a, b}, {}, oracle::Where(condition, a, b));
  }
  const uint64_t x = session().Put(oracle::Sample(Dtype::kFloat32, {3, 4}, 1), "cpu");
  const uint64_t bad = session().Put(ArrayOf(Dtype::kInt64, {2}, {0, 3}), "cpu");
  ExpectReason(session().Run(Op::kTake, {x, bad}).status(), Reason::kIndexOutOfRange, {"index", "size", "axis"});
}

TEST_P(FamiliesTest, CastBetweenEveryPair) {
  for (const Dtype from : kAll) {
    std::vector<oracle::Number> values = oracle::Interesting(from);
    const Array x = Array::Of(from, {static_cast<int64_t>(values.size())}, values);
    for (const Dtype to : kAll) {
      ConvertAttributes cast;
      cast.dtype = to;
      Check(Op::kCast, {x}, cast, oracle::Convert(x, to));
    }
  }
}

TEST_P(FamiliesTest, Views) {
  for (const Dtype dtype : {Dtype::kBool, Dtype::kInt16, Dtype::kFloat32, Dtype::kFloat64}) {
    const Array x = oracle::Sample(dtype, {4, 5, 6}, 3);
    ViewAttributes permute;
    permute.axes = {2, 0, 1};
    Check(Op::kPermute, {x}, permute, oracle::Permute(x, permute.axes));
    ViewAttributes slice;
    slice.axes = {0, 2};
    slice.starts = {-1, 1};
    slice.stops = {-5, 6};
    slice.steps = {-2, 2};
    Check(Op::kSlice, {x}, slice, oracle::Slice(x, slice));
    for (const int64_t offset : {-7, -2, 0, 1, 9}) {
      ViewAttributes diagonal;
      diagonal.diagonal = offset;
      Check(Op::kDiagonal, {x}, diagonal, oracle::Diagonal(x, 1, 2, offset));
    }
    ViewAttributes reshape;
    reshape.shape = {-1, 10};
    Array reshaped = x;
    reshaped.type.shape = {12, 10};
    Check(Op::kReshape, {x}, reshape, reshaped);
    const Array column = oracle::Sample(dtype, {4, 1}, 4);
    ViewAttributes expand;
    expand.shape = {3, 4, 5};
    Check(Op::kExpand, {column}, expand, oracle::Expand(column, {3, 4, 5}));
  }
}

TEST_P(FamiliesTest, ConvolutionsAndPools) {
  for (const Dtype dtype : kReals) {
    const double absolute = dtype == Dtype::kFloat64 ? 1e-11 : 2e-4;
    const Array x = oracle::Sample(dtype, {2, 4, 9, 8}, 1, false);
    const Array w = oracle::Sample(dtype, {6, 2, 3, 2}, 2, false);
    const Array b = oracle::Sample(dtype, {6}, 3, false);
    WindowAttributes conv;
    conv.strides = {2, 1};
    conv.dilations = {1, 2};
    conv.pads_begin = {1, 0};
    conv.pads_end = {0, 2};
    conv.groups = 2;
    Check(Op::kConv, {x, w, b}, conv, oracle::Conv(x, w, &b, conv), 4, absolute);
    const Array plain = oracle::Sample(dtype, {3, 4, 3, 3}, 4, false);
    Check(Op::kConv, {x, plain}, WindowAttributes{}, oracle::Conv(x, plain, nullptr, {}), 4, absolute);
    const Array line = oracle::Sample(dtype, {2, 3, 17}, 5, false);
    const Array line_weight = oracle::Sample(dtype, {4, 3, 5}, 6, false);
    Check(Op::kConv, {line, line_weight}, WindowAttributes{}, oracle::Conv(line, line_weight, nullptr, {}), 4,
          absolute);
    for (const bool ceil : {false, true}) {
      WindowAttributes pool;
      pool.sizes = {3, 2};
      pool.strides = {2, 2};
      pool.pads_begin = {1, 1};
      pool.pads_end = {1, 1};
      pool.ceil_mode = ceil;
      Check(Op::kMaxPool, {x}, pool, oracle::Pool("max_pool", x, pool));
      Check(Op::kAvgPool, {x}, pool, oracle::Pool("avg_pool", x, pool), 2, 1e-6);
      pool.count_pads = true;
      Check(Op::kAvgPool, {x}, pool, oracle::Pool("avg_pool", x, pool), 2, 1e-6);
    }
  }
}

TEST_P(FamiliesTest, Normalisations) {
  for (const Dtype dtype : kReals) {
    const double absolute = dtype == Dtype::kFloat64 ? 1e-12 : 1e-5;
    const Array x = oracle::Sample(dtype, {3, 4, 5}, 1, false);
    const Array mean = oracle::Sample(dtype, {4}, 2, false);
    const Array variance = ArrayOf(dtype, {4}, {0.5, 1, 2, 4});
    const Array weight = oracle::Sample(dtype, {4}, 3, false);
    const Array bias = oracle::Sample(dtype, {4}, 4, false);
    NormAttributes norm;
    norm.epsilon = 1e-5;
    Check(Op::kBatchNorm, {x, mean, variance, weight, bias}, norm,
          oracle::BatchNorm(x, mean, variance, &weight, &bias, norm.epsilon), 4, absolute);
    Check(Op::kBatchNorm, {x, mean, variance}, norm,
          oracle::BatchNorm(x, mean, variance, nullptr, nullptr, norm.epsilon), 4, absolute);
    const Array row_weight = oracle::Sample(dtype, {4, 5}, 5, false);
    const Array row_bias = oracle::Sample(dtype, {4, 5}, 6, false);
    norm.axis = 1;
    Check(Op::kLayerNorm, {x, row_weight, row_bias}, norm,
          oracle::LayerNorm(x, &row_weight, &row_bias, 1, norm.epsilon), 4, absolute);
    norm.axis = -1;
    Check(Op::kLayerNorm, {x}, norm, oracle::LayerNorm(x, nullptr, nullptr, 2, norm.epsilon), 4, absolute);
  }
}

TEST_P(FamiliesTest, ClipTakesTensorsScalarsAndNothing) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const std::string& device : DeviceNames()) {
    const uint64_t x = session().Put(ArrayOf(Dtype::kFloat32, {5}, {-5, 0, 6, 7, nan}), device);
    const Scalar none;
    EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kClip, {x, none, 6})),
                              ArrayOf(Dtype::kFloat32, {5}, {-5, 0, 6, 6, nan})),
              "");
    EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kClip, {x})),
                              ArrayOf(Dtype::kFloat32, {5}, {-5, 0, 6, 7, nan})),
              "");
    EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kClip, {x, 4, 2})),
                              ArrayOf(Dtype::kFloat32, {5}, {2, 2, 2, 2, nan})),
              "");
    const uint64_t low = session().Put(ArrayOf(Dtype::kFloat32, {1}, {1}), device);
    EXPECT_EQ(oracle::Compare(session().MustGet(session().MustRun(Op::kClip, {x, low})),
                              ArrayOf(Dtype::kFloat32, {5}, {1, 1, 6, 7, nan})),
              "");
  }
}

INSTANTIATE_CONFORMANCE(FamiliesTest);

}  // namespace
}  // namespace tensord::conformance
