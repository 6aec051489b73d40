#include <cmath>

#include "case.h"
#include "kernels/core/text.h"
#include "kernels/emulated/cublaslt.h"

namespace tensord::cuda {
namespace {

class MatmulTest : public FamilyTest {
 protected:
  static Range RangeFor(Dtype dtype) { return IsReal(dtype) ? Range{-1, 1} : Range{0, 0}; }

  void Check(const Tensor& a, const Tensor& b, const MatmulAttributes& attributes = {}) {
    SCOPED_TRACE(
        StrCat(a.Text(), " by ", b.Text(), " transposed ", attributes.transpose_a, " ", attributes.transpose_b));
    const absl::StatusOr<Array> got = Run(Op::kMatmul, {&a, &b}, attributes);
    ASSERT_TRUE(got.ok()) << got.status();
    const Dtype dtype = got->type.dtype;
    const Array expected = oracle::Matmul(oracle::Convert(a.host, dtype), oracle::Convert(b.host, dtype), attributes);
    const size_t rank = a.shape().size();
    const auto k = static_cast<double>(a.shape()[rank - (attributes.transpose_a ? 2 : 1)]);
    ASSERT_TRUE(Agrees(got, expected, IsReal(dtype) ? 1 : 0, IsReal(dtype) ? 2 * ComputeEpsilon(dtype) * (k + 1) : 0));
  }
  void CheckLinear(const Tensor& x, const Tensor& weight, const Tensor* bias) {
    SCOPED_TRACE(StrCat(x.Text(), " weight ", weight.Text(), bias != nullptr ? " with bias" : ""));
    const Array expected = oracle::Linear(x.host, weight.host, bias != nullptr ? &bias->host : nullptr);
    const auto k = static_cast<double>(x.shape().back());
    const double absolute = 8 * ComputeEpsilon(x.view.dtype) * (k + 1);
    ASSERT_TRUE(Agrees(Run(Op::kLinear, {&x, &weight, bias}), expected, 1, absolute));
  }
};

std::vector<Dtype> Numbers() {
  std::vector<Dtype> all;
  for (const Dtype dtype : kEveryDtype) {
    if (dtype != Dtype::kBool) all.push_back(dtype);
  }
  return all;
}

TEST_P(MatmulTest, EveryDtypeLayoutAndShape) {
  struct Case {
    Dims a, b;
    bool transpose_a, transpose_b;
  };
  const std::vector<Case> cases = {
      {{3, 4}, {4, 5}, false, false},
      {{7, 33}, {33, 40}, false, false},
      {{33, 7}, {33, 40}, true, false},
      {{7, 33}, {40, 33}, false, true},
      {{33, 7}, {40, 33}, true, true},
      {{9}, {9}, false, false},
      {{9}, {9, 6}, false, false},
      {{6, 9}, {9}, false, false},
      {{1, 40}, {40, 50}, false, false},
      {{50, 40}, {40, 2}, false, false},
      {{2, 3, 4}, {4, 5}, false, false},
      {{2, 3, 4}, {2, 4, 5}, false, false},
      {{2, 1, 3, 4}, {5, 4, 2}, false, false},
      {{4}, {2, 3, 4, 5}, false, false},
      {{2, 3, 4, 5}, {5}, false, false},
      {{3, 4}, {2, 4, 5}, false, false},
      {{1, 1}, {1, 1}, false, false},
      {{3, 300}, {300, 3}, false, false},
      {{2, 4, 3}, {2, 5, 4}, true, true},
      {{2, 1100}, {1100, 2}, false, false},
      {{34, 3}, {3, 65}, false, false},
  };
  for (const Case& c : cases) {
    for (const Dtype dtype : Numbers()) {
      const Tensor a = Make(dtype, c.a, AnyLay(), RangeFor(dtype));
      const Tensor b = Make(dtype, c.b, AnyLay(), RangeFor(dtype));
      MatmulAttributes attributes;
      attributes.transpose_a = c.transpose_a;
      attributes.transpose_b = c.transpose_b;
      Check(a, b, attributes);
      if (HasFatalFailure()) return;
    }
  }
}

// Products that are the library's: as they lie, made dense, in a batch, in batches of batches.
TEST_P(MatmulTest, ByLibrary) {
  struct Case {
    Dims a, b;
  };
  const std::vector<Case> cases = {
      {{65, 64}, {64, 66}},          {{3, 50, 40}, {3, 40, 50}},       {{3, 50, 40}, {40, 50}}, {{50, 40}, {4, 40, 50}},
      {{2, 1, 30, 40}, {3, 40, 40}}, {{1, 600}, {600, 500}},           {{600}, {600, 500}},     {{500, 600}, {600}},
      {{500, 600}, {600, 1}},        {{2, 3, 20, 60}, {2, 3, 60, 40}}, {{262144}, {262144}},
  };
  for (const Case& c : cases) {
    for (const Lay lay : {Lay::kContiguous, AnyLay()}) {
      const Dtype dtype = kReals[random()() % 4];
      const Tensor a = Make(dtype, c.a, lay, {-1, 1});
      const Tensor b = Make(dtype, c.b, lay, {-1, 1});
      Check(a, b);
      if (HasFatalFailure()) return;
    }
  }
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      const Tensor a = Make(Dtype::kFloat32, transpose_a ? Dims{70, 60} : Dims{60, 70}, Lay::kContiguous, {-1, 1});
      const Tensor b = Make(Dtype::kFloat32, transpose_b ? Dims{80, 70} : Dims{70, 80}, Lay::kContiguous, {-1, 1});
      MatmulAttributes attributes;
      attributes.transpose_a = transpose_a;
      attributes.transpose_b = transpose_b;
      Check(a, b, attributes);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatmulTest, Linear) {
  for (const Dtype dtype : kReals) {
    for (const Dims& shape : {Dims{3}, Dims{2, 3}, Dims{4, 5, 3}, Dims{300, 3}}) {
      for (const int64_t outs : {1, 4, 300}) {
        const Lay lay = AnyLay();
        const Tensor x = Make(dtype, shape, lay, {-2, 2});
        const Tensor weight = Make(dtype, {outs, 3}, lay, {-2, 2});
        const Tensor bias = Make(dtype, {outs}, lay, {-2, 2});
        CheckLinear(x, weight, random()() % 2 == 0 ? &bias : nullptr);
        if (HasFatalFailure()) return;
      }
    }
    // A long k in several runs, with bias, by tiles.
    const Tensor x = Make(dtype, {3, 2000}, Lay::kContiguous, {-1, 1});
    const Tensor weight = Make(dtype, {5, 2000}, Lay::kContiguous, {-1, 1});
    const Tensor bias = Make(dtype, {5}, Lay::kReversed, {-1, 1});
    CheckLinear(x, weight, &bias);
    if (HasFatalFailure()) return;
  }
}

TEST_P(MatmulTest, MixedDtypesPromote) {
  for (const auto& [left, right] : std::vector<std::pair<Dtype, Dtype>>{{Dtype::kInt8, Dtype::kInt16},
                                                                        {Dtype::kUint8, Dtype::kInt64},
                                                                        {Dtype::kFloat16, Dtype::kBfloat16},
                                                                        {Dtype::kFloat32, Dtype::kFloat64}}) {
    for (const int64_t n : {6, 70}) {
      const Tensor a = Make(left, {n, n}, Lay::kContiguous, RangeFor(left));
      const Tensor b = Make(right, {n, n}, Lay::kPermuted, RangeFor(right));
      Check(a, b);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(MatmulTest, IntegersAreExact) {
  const Tensor a = Of(Dtype::kInt64, {1, 2}, {9007199254740993, 1});
  const Tensor b = Of(Dtype::kInt64, {2, 1}, {1, 1});
  EXPECT_EQ(Run(Op::kMatmul, {&a, &b})->At(0).integer, 9007199254740994);
  const Tensor c = Of(Dtype::kInt32, {1, 1}, {65536});
  EXPECT_EQ(Run(Op::kMatmul, {&c, &c})->At(0).integer, 0);
}

TEST_P(MatmulTest, EmptyInnerDimensionGivesZeros) {
  for (const Dtype dtype : Numbers()) {
    const Tensor a = Of(Array::Zeros(dtype, {5, 0}));
    const Tensor b = Of(Array::Zeros(dtype, {0, 5}));
    EXPECT_TRUE(Agrees(Run(Op::kMatmul, {&a, &b}), Array::Zeros(dtype, {5, 5})));
    const Tensor x = Of(Array::Zeros(dtype, {0, 3, 4}));
    const Tensor y = Of(Array::Zeros(dtype, {0, 4, 5}));
    EXPECT_TRUE(Agrees(Run(Op::kMatmul, {&x, &y}), Array::Zeros(dtype, {0, 3, 5})));
  }
  const Tensor x = Of(Array::Zeros(Dtype::kFloat32, {2, 0}));
  const Tensor weight = Of(Array::Zeros(Dtype::kFloat32, {3, 0}));
  const Tensor bias = Of(Dtype::kFloat32, {3}, {1, 2, 3});
  const Tensor expected = Of(Dtype::kFloat32, {2, 3}, {1, 2, 3, 1, 2, 3});
  EXPECT_TRUE(Agrees(Run(Op::kLinear, {&x, &weight, &bias}), expected.host));
}

TEST_P(MatmulTest, TrueFloat32) {
  for (const int64_t n : {16, 70}) {
    Array identity = Array::Zeros(Dtype::kFloat32, {n, n});
    for (int64_t i = 0; i < n; ++i) identity.Set(i * n + i, Number::Real(2049));
    const Tensor a = Of(identity);
    const Tensor ones = Of(Dtype::kFloat32, {n, n}, std::vector<long double>(static_cast<size_t>(n * n), 1));
    const Array out = *Run(Op::kMatmul, {&a, &ones});
    for (int64_t i = 0; i < out.size(); ++i) ASSERT_EQ(out.At(i).real, 2049);
  }
}

TEST_P(MatmulTest, LessExactWhereAsked) {
  const Tensor a = Make(Dtype::kFloat32, {70, 60}, Lay::kContiguous, {-1, 1});
  const Tensor b = Make(Dtype::kFloat32, {60, 70}, Lay::kContiguous, {-1, 1});
  MatmulAttributes attributes;
  const Array expected = oracle::Matmul(a.host, b.host, attributes);
  for (const Precision precision : {Precision::kTf32, Precision::kBfloat16}) {
    attributes.precision = precision;
    EXPECT_TRUE(Agrees(Run(Op::kMatmul, {&a, &b}, attributes), expected, 0, 60 * 0x1p-10));
    EXPECT_TRUE(emulated::CountCublasLt().tf32);
  }
  attributes.precision = Precision::kFloat32;
  EXPECT_TRUE(Agrees(Run(Op::kMatmul, {&a, &b}, attributes), expected, 1, 120 * 0x1p-23));
  EXPECT_FALSE(emulated::CountCublasLt().tf32);
}

TEST_P(MatmulTest, LackOfMemoryIsSaid) {
  for (const Dtype dtype : {Dtype::kFloat64, Dtype::kInt16}) {
    const Tensor a = Make(dtype, {2, 1500}, Lay::kContiguous, {0, 1});
    const Tensor b = Make(dtype, {1500, 2}, Lay::kContiguous, {0, 1});
    scratch().fail_after = 0;
    EXPECT_EQ(Run(Op::kMatmul, {&a, &b}).status().code(), absl::StatusCode::kResourceExhausted);
    scratch().fail_after = -1;
    EXPECT_TRUE(Run(Op::kMatmul, {&a, &b}).ok());
    EXPECT_EQ(scratch().live(), 0);
  }
}

TENSORD_EVERY_ORDER(MatmulTest);

}  // namespace
}  // namespace tensord::cuda
