#include <cmath>
#include <limits>

#include "case.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/core/text.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

using ::testing::ElementsAre;

constexpr long double kNan = std::numeric_limits<long double>::quiet_NaN();
constexpr long double kInf = std::numeric_limits<long double>::infinity();

ReduceAttributes Along(std::initializer_list<int32_t> axes) {
  ReduceAttributes a;
  for (const int32_t axis : axes) a.axes.push_back(axis);
  return a;
}

ReduceAttributes Everything() {
  ReduceAttributes a;
  a.all_axes = true;
  return a;
}

// The elements behind every output, in row-major order.
std::vector<std::vector<long double>> Groups(const TestTensor& x, const ReduceAttributes& a) {
  const size_t rank = x.shape().size();
  std::vector<bool> reduced(rank, a.all_axes);
  for (const int32_t axis : a.axes)
    reduced[static_cast<size_t>(axis < 0 ? axis + static_cast<int32_t>(rank) : axis)] = true;
  Dims kept;
  for (size_t d = 0; d < rank; ++d) {
    if (!reduced[d]) kept.push_back(x.shape()[d]);
  }
  // How far an index along each axis moves the output.
  std::vector<int64_t> steps(rank, 0);
  int64_t step = 1;
  for (size_t d = rank; d-- > 0;) {
    if (reduced[d]) continue;
    steps[d] = step;
    step *= x.shape()[d];
  }
  std::vector<std::vector<long double>> groups(static_cast<size_t>(NumElements(kept)));
  for (int64_t i = 0; i < x.elements(); ++i) {
    int64_t rest = i;
    int64_t to = 0;
    for (size_t d = rank; d-- > 0;) {
      to += rest % x.shape()[d] * steps[d];
      rest /= x.shape()[d];
    }
    groups[static_cast<size_t>(to)].push_back(x.Get(i));
  }
  return groups;
}

// One output by the definition. Integers wrap in 64 bits.
long double Reference(Op op, const std::vector<long double>& x, const ReduceAttributes& a, Dtype dtype) {
  const auto n = static_cast<long double>(x.size());
  const bool whole = !IsReal(dtype);
  const bool is_signed = KindOf(dtype) != DtypeKind::kUnsigned;
  const auto wrapped = [&](uint64_t bits) {
    return is_signed ? static_cast<long double>(static_cast<int64_t>(bits)) : static_cast<long double>(bits);
  };
  const auto bits_of = [](long double v) {
    return v < 0 ? static_cast<uint64_t>(static_cast<int64_t>(v)) : static_cast<uint64_t>(v);
  };
  switch (op) {
    case Op::kSum:
    case Op::kMean: {
      if (whole) {
        uint64_t sum = 0;
        for (const long double v : x) sum += bits_of(v);
        return wrapped(sum);
      }
      long double sum = 0;
      for (const long double v : x) sum += v;
      return op == Op::kSum ? sum : sum / n;
    }
    case Op::kProd: {
      if (whole) {
        uint64_t product = 1;
        for (const long double v : x) product *= bits_of(v);
        return wrapped(product);
      }
      long double product = 1;
      for (const long double v : x) product *= v;
      return product;
    }
    case Op::kMax:
    case Op::kMin:
    case Op::kArgMax:
    case Op::kArgMin: {
      size_t best = 0;
      const bool max = op == Op::kMax || op == Op::kArgMax;
      for (size_t i = 1; i < x.size(); ++i) {
        const bool better = max ? x[i] > x[best] : x[i] < x[best];
        const bool nan = std::isnan(x[i]) && !std::isnan(x[best]);
        const bool equal = x[i] == x[best] || (std::isnan(x[i]) && std::isnan(x[best]));
        if (better || nan || (equal && a.last_index)) best = i;
      }
      return op == Op::kMax || op == Op::kMin ? x[best] : static_cast<long double>(best);
    }
    case Op::kAny: {
      for (const long double v : x) {
        if (v != 0) return 1;
      }
      return 0;
    }
    case Op::kAll: {
      for (const long double v : x) {
        if (!(v != 0)) return 0;
      }
      return 1;
    }
    default: {
      long double sum = 0;
      for (const long double v : x) sum += v;
      const long double mean = sum / n;
      long double squares = 0;
      for (const long double v : x) squares += (v - mean) * (v - mean);
      const long double var = squares / std::max(n - static_cast<long double>(a.correction), 0.0L);
      return op == Op::kVar ? var : std::sqrt(var);
    }
  }
}

long double Tolerance(Op op, const std::vector<long double>& x, long double want, Dtype dtype) {
  if (!IsReal(dtype)) return 0;
  if (op == Op::kMax || op == Op::kMin || op == Op::kArgMax || op == Op::kArgMin || op == Op::kAny || op == Op::kAll)
    return 0;
  long double size = 0;
  for (const long double v : x) size += std::abs(v);
  const long double rounding = StorageEpsilon(dtype) * std::abs(want);
  const long double eps = ComputeEpsilon(dtype);
  // Pairwise: a few roundings however many elements there are.
  if (op == Op::kSum) return rounding + 16 * eps * size;
  if (op == Op::kMean) return rounding + 16 * eps * size / static_cast<long double>(std::max<size_t>(1, x.size()));
  if (op == Op::kProd) return rounding + 64 * eps * std::abs(want);
  // The mean is off by a few roundings, and its square is in every square.
  const long double off = 16 * eps * size / static_cast<long double>(x.size());
  return rounding + 64 * eps * std::abs(want) + (op == Op::kVar ? off * off : off);
}

void Check(Op op, const TestTensor& x, const ReduceAttributes& a, const std::string& what) {
  SCOPED_TRACE(StrCat(RowOf(op).name, " ", x.view().type().ToString(), " strides [", StrJoin(x.view().strides, ","),
                      "] axes [", StrJoin(a.axes, ","), a.all_axes ? "all" : "", "] ", what));
  const auto groups = Groups(x, a);
  std::vector<long double> wants;
  std::vector<long double> tolerances;
  for (const auto& group : groups) {
    wants.push_back(Reference(op, group, a, x.dtype()));
    tolerances.push_back(Tolerance(op, group, wants.back(), x.dtype()));
  }
  ForEachIsa([&] {
    const absl::StatusOr<TestTensor> out = RunOp(op, {&x}, a);
    ASSERT_TRUE(out.ok()) << out.status();
    ASSERT_EQ(static_cast<size_t>(out->elements()), groups.size());
    for (size_t i = 0; i < groups.size(); ++i) {
      const long double got = out->Get(static_cast<int64_t>(i));
      // Rounds to infinity, or nearly so.
      if (out->dtype() == Dtype::kFloat16 && std::abs(wants[i]) > 65519) continue;
      ASSERT_TRUE(Near(got, wants[i], tolerances[i])) << "output " << i << " is " << got << ", expected " << wants[i];
    }
  });
}

const std::vector<Op>& AllOps() {
  static const std::vector<Op> ops = {Op::kSum, Op::kProd,   Op::kMean,   Op::kMax, Op::kMin, Op::kAny,
                                      Op::kAll, Op::kArgMax, Op::kArgMin, Op::kVar, Op::kStd};
  return ops;
}

bool TakesOp(Op op, Dtype dtype) {
  const bool real_only = op == Op::kMean || op == Op::kVar || op == Op::kStd;
  if (real_only) return IsReal(dtype);
  const bool any_dtype = op == Op::kAny || op == Op::kAll || op == Op::kSum || op == Op::kProd;
  return dtype != Dtype::kBool || any_dtype;
}

void FillFor(Op op, TestTensor& x, std::mt19937& random) {
  if (op == Op::kProd && IsReal(x.dtype())) return x.Fill(random, 0.75, 1.25);
  if (op == Op::kArgMax || op == Op::kArgMin) return x.Fill(random, 0, 9);  // ties
  if (IsInteger(x.dtype())) return x.Fill(random, 0, 0);
  x.Fill(random, -4, 6);
}

std::vector<Dtype> EveryDtype() {
  std::vector<Dtype> all = Integers();
  all.insert(all.end(), Reals().begin(), Reals().end());
  all.push_back(Dtype::kBool);
  return all;
}

TEST(Reduce, EveryOpDtypeAndLayout) {
  std::mt19937 random(7);
  for (const Op op : AllOps()) {
    for (const Dtype dtype : EveryDtype()) {
      if (!TakesOp(op, dtype)) continue;
      for (const Lay lay : Lays()) {
        TestTensor x(dtype, {5, 1, 7, 11}, lay, random);
        FillFor(op, x, random);
        const bool position = op == Op::kArgMax || op == Op::kArgMin;
        ReduceAttributes a = position ? Along({static_cast<int32_t>(random() % 4)}) : Everything();
        if (!position && random() % 4 != 0) {
          a.all_axes = false;
          for (int32_t d = 0; d < 4; ++d) {
            if (random() % 2) a.axes.push_back(random() % 2 ? d : d - 4);
          }
        }
        if (position && random() % 4 == 0) a = Everything();
        if (position) a.last_index = random() % 2;
        if (op == Op::kVar || op == Op::kStd) a.correction = static_cast<double>(random() % 2);
        Check(op, x, a, "random");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, EveryPathOfTheTraversal) {
  struct Case {
    Dims shape;
    ReduceAttributes a;
  };
  const std::vector<Case> cases = {
      {{140000}, Everything()},      {{2, 66000}, Along({1})},    {{66000, 3}, Along({0})},
      {{66000, 1}, Along({0})},      {{300, 400}, Along({0})},    {{300, 400}, Along({1})},
      {{2000, 40}, Along({0})},      {{40, 2100}, Along({0})},    {{5000, 3}, Along({1})},
      {{5000, 9}, Along({1})},       {{17, 65, 33}, Along({1})},  {{17, 65, 33}, Along({0, 2})},
      {{9, 3, 4000}, Along({0, 2})}, {{2, 40000, 2}, Along({1})}, {{6, 5000, 5}, Along({1})},
      {{1500, 2, 3}, Along({0})},    {{1, 1, 1}, Everything()},   {{4, 5}, Along({})},
      {{70, 1300}, Along({0})},
  };
  std::mt19937 random(11);
  for (const Case& c : cases) {
    for (const Op op : {Op::kSum, Op::kMax, Op::kArgMin, Op::kVar, Op::kAll}) {
      if (op == Op::kArgMin && c.a.axes.size() != 1 && !c.a.all_axes) continue;
      for (const Dtype dtype : {Dtype::kFloat32, Dtype::kInt16, Dtype::kFloat16}) {
        if (!TakesOp(op, dtype)) continue;
        const Lay lay = random() % 2 ? Lay::kContiguous : Lays()[random() % Lays().size()];
        TestTensor x(dtype, c.shape, lay, random);
        FillFor(op, x, random);
        ReduceAttributes a = c.a;
        if (op == Op::kArgMin) a.last_index = random() % 2;
        Check(op, x, a, "path");
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Reduce, SameBitsForAnyThreadsAndVariant) {
  std::mt19937 random(3);
  for (const Dims& shape : {Dims{300000}, Dims{700, 900}, Dims{300000, 2}, Dims{90, 70, 60}}) {
    TestTensor x(Dtype::kFloat32, shape, Lay::kContiguous, random);
    x.Fill(random, -1, 1);
    for (const Op op : {Op::kSum, Op::kMean, Op::kVar, Op::kProd}) {
      for (const ReduceAttributes& a : {Everything(), Along({0})}) {
        std::vector<std::byte> first;
        ForEachIsa([&] {
          for (const int threads : {1, 2, 5}) {
            SetThreads(threads);
            const absl::StatusOr<TestTensor> out = RunOp(op, {&x}, a);
            ASSERT_TRUE(out.ok()) << out.status();
            if (first.empty()) first = out->Bytes();
            EXPECT_EQ(out->Bytes(), first) << RowOf(op).name << " " << ShapeText(shape) << " threads " << threads;
          }
        });
        SetThreads(0);
      }
    }
  }
}

TEST(Reduce, LongAxesKeepCounting) {
  TestTensor ones = TestTensor::Contiguous(Dtype::kFloat32, {20'000'000, 2});
  std::fill_n(ones.view().as<float>(), 40'000'000, 1.0F);
  EXPECT_THAT(RunOp(Op::kSum, {&ones}, Along({0}))->Values(), ElementsAre(2e7L, 2e7L));
  EXPECT_THAT(RunOp(Op::kMean, {&ones}, Along({0}))->Values(), ElementsAre(1.0L, 1.0L));
  EXPECT_THAT(RunOp(Op::kSum, {&ones}, Everything())->Values(), ElementsAre(4e7L));
  std::fill_n(ones.view().as<float>(), 40'000'000, 0x1p-26F);
  TestTensor small = TestTensor::Contiguous(Dtype::kFloat32, {1 << 25, 2});
  std::fill_n(small.view().as<float>(), 1 << 26, 0x1p-26F);
  EXPECT_THAT(RunOp(Op::kSum, {&small}, Along({0}))->Values(), ElementsAre(0.5L, 0.5L));
  EXPECT_THAT(RunOp(Op::kSum, {&small}, Everything())->Values(), ElementsAre(1.0L));
}

TEST(Reduce, TiesGoToTheFirst) {
  ForEachIsa([] {
    const TestTensor x = TestTensor::Of(Dtype::kInt64, {2, 5}, {2, 3, 0, 3, 3, 1, 3, 1, 3, 1});
    EXPECT_THAT(RunOp(Op::kArgMax, {&x}, Along({1}))->Values(), ElementsAre(1, 1));
    EXPECT_THAT(RunOp(Op::kArgMin, {&x}, Along({1}))->Values(), ElementsAre(2, 0));
    ReduceAttributes last = Along({1});
    last.last_index = true;
    EXPECT_THAT(RunOp(Op::kArgMax, {&x}, last)->Values(), ElementsAre(4, 3));
    const TestTensor y = TestTensor::Of(Dtype::kFloat32, {3, 4}, {1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1});
    EXPECT_THAT(RunOp(Op::kArgMax, {&y}, Along({1}))->Values(), ElementsAre(0, 1, 0));
    TestTensor many = TestTensor::Contiguous(Dtype::kFloat32, {1'000'003});
    std::fill_n(many.view().as<float>(), 1'000'003, 1.0F);
    EXPECT_THAT(RunOp(Op::kArgMax, {&many}, Everything())->Values(), ElementsAre(0));
    last = Everything();
    last.last_index = true;
    EXPECT_THAT(RunOp(Op::kArgMax, {&many}, last)->Values(), ElementsAre(1'000'002));
  });
}

TEST(Reduce, NanWins) {
  ForEachIsa([] {
    for (const Dtype dtype : Reals()) {
      for (const int64_t n : {3, 9, 100, 5000, 70000}) {
        for (const bool columns : {false, true}) {
          const Dims shape = columns ? Dims{n, 9} : Dims{n};
          const ReduceAttributes a = columns ? Along({0}) : Everything();
          const int64_t step = columns ? 9 : 1;
          std::mt19937 random(5);
          TestTensor x(dtype, shape, Lay::kContiguous, random);
          x.Fill(random, -1, 1);
          x.Set(n / 2 * step, kNan);
          x.Set((n - 1) * step, kNan);
          for (const Op op : {Op::kMax, Op::kMin, Op::kSum, Op::kMean, Op::kVar}) {
            EXPECT_TRUE(std::isnan(RunOp(op, {&x}, a)->Get(0))) << RowOf(op).name << " " << ShapeText(shape);
            if (columns) {
              EXPECT_FALSE(std::isnan(RunOp(op, {&x}, a)->Get(1))) << RowOf(op).name << " " << ShapeText(shape);
            }
          }
          EXPECT_EQ(RunOp(Op::kArgMax, {&x}, a)->Get(0), n / 2);
          EXPECT_EQ(RunOp(Op::kArgMin, {&x}, a)->Get(0), n / 2);
          ReduceAttributes last = a;
          last.last_index = true;
          EXPECT_EQ(RunOp(Op::kArgMin, {&x}, last)->Get(0), n - 1);
          EXPECT_EQ(RunOp(Op::kAny, {&x}, a)->Get(0), 1);
        }
      }
    }
  });
}

TEST(Reduce, InfinitiesAndSignedExtremes) {
  const TestTensor x = TestTensor::Of(Dtype::kFloat32, {3}, {-kInf, 1, -kInf});
  EXPECT_EQ(RunOp(Op::kMin, {&x}, Everything())->Get(0), -kInf);
  EXPECT_EQ(RunOp(Op::kSum, {&x}, Everything())->Get(0), -kInf);
  const TestTensor all = TestTensor::Of(Dtype::kFloat32, {2}, {-kInf, -kInf});
  EXPECT_EQ(RunOp(Op::kMax, {&all}, Everything())->Get(0), -kInf);
  EXPECT_EQ(RunOp(Op::kArgMax, {&all}, Everything())->Get(0), 0);
  const TestTensor big = TestTensor::Of(Dtype::kUint64, {3}, {1, 18446744073709551615.0L, 9223372036854775808.0L});
  EXPECT_EQ(RunOp(Op::kMax, {&big}, Everything())->Get(0), 18446744073709551615.0L);
  EXPECT_EQ(RunOp(Op::kArgMax, {&big}, Everything())->Get(0), 1);
}

TEST(Reduce, NoElements) {
  const TestTensor x = TestTensor::Contiguous(Dtype::kFloat32, {0, 3});
  EXPECT_THAT(RunOp(Op::kSum, {&x}, Along({0}))->Values(), ElementsAre(0, 0, 0));
  EXPECT_THAT(RunOp(Op::kProd, {&x}, Along({0}))->Values(), ElementsAre(1, 1, 1));
  EXPECT_THAT(RunOp(Op::kAny, {&x}, Along({0}))->Values(), ElementsAre(0, 0, 0));
  EXPECT_THAT(RunOp(Op::kAll, {&x}, Along({0}))->Values(), ElementsAre(1, 1, 1));
  EXPECT_THAT(RunOp(Op::kSum, {&x}, Along({1}))->Values(), ElementsAre());
  for (const Op op : {Op::kMean, Op::kVar, Op::kStd}) EXPECT_TRUE(std::isnan(RunOp(op, {&x}, Along({0}))->Get(2)));
  const TestTensor whole = TestTensor::Contiguous(Dtype::kInt8, {0});
  EXPECT_EQ(RunOp(Op::kProd, {&whole}, Everything())->Get(0), 1);
  const TestTensor scalar = TestTensor::Of(Dtype::kFloat64, {}, {2.5L});
  EXPECT_EQ(RunOp(Op::kSum, {&scalar}, Everything())->Get(0), 2.5L);
  EXPECT_EQ(RunOp(Op::kArgMax, {&scalar}, Everything())->Get(0), 0);
}

TEST(Reduce, CorrectionAsNumPy) {
  const TestTensor one = TestTensor::Of(Dtype::kFloat32, {1}, {3});
  ReduceAttributes a = Everything();
  a.correction = 1;
  EXPECT_TRUE(std::isnan(RunOp(Op::kVar, {&one}, a)->Get(0)));
  const TestTensor two = TestTensor::Of(Dtype::kFloat32, {2}, {1, 3});
  EXPECT_EQ(RunOp(Op::kVar, {&two}, a)->Get(0), 2);
  a.correction = 3;
  EXPECT_EQ(RunOp(Op::kVar, {&two}, a)->Get(0), kInf);
  a.correction = 0.5;
  EXPECT_NEAR(static_cast<double>(RunOp(Op::kVar, {&two}, a)->Get(0)), 2 / 1.5, 1e-6);
}

TEST(Reduce, VarianceFarFromZero) {
  std::mt19937 random(9);
  TestTensor x(Dtype::kFloat32, {1000, 50}, Lay::kContiguous, random);
  for (int64_t i = 0; i < x.elements(); ++i) x.Set(i, 10000 + std::normal_distribution<double>()(random));
  for (const ReduceAttributes& a : {Along({0}), Along({1}), Everything()}) {
    const auto groups = Groups(x, a);
    const auto out = *RunOp(Op::kVar, {&x}, a);
    for (size_t i = 0; i < groups.size(); ++i) {
      const long double want = Reference(Op::kVar, groups[i], a, Dtype::kFloat32);
      EXPECT_NEAR(static_cast<double>(out.Get(static_cast<int64_t>(i)) / want), 1, 1e-5);
    }
  }
}

TEST(Reduce, SumsInTheDtypeAskedFor) {
  const TestTensor bytes = TestTensor::Of(Dtype::kUint8, {2}, {200, 200});
  absl::StatusOr<TestTensor> sum = RunOp(Op::kSum, {&bytes}, Everything());
  EXPECT_EQ(sum->dtype(), Dtype::kUint64);
  EXPECT_EQ(sum->Get(0), 400);
  ReduceAttributes a = Everything();
  a.dtype = Dtype::kUint8;
  EXPECT_EQ(RunOp(Op::kSum, {&bytes}, a)->Get(0), 144);
  a.dtype = Dtype::kFloat64;
  EXPECT_EQ(RunOp(Op::kSum, {&bytes}, a)->Get(0), 400);
  const TestTensor reals = TestTensor::Of(Dtype::kFloat32, {4}, {1.75L, 2.75L, kNan, -3.5L});
  a.dtype = Dtype::kInt32;  // converted first: 1 + 2 + 0 - 3
  EXPECT_EQ(RunOp(Op::kSum, {&reals}, a)->Get(0), 0);
  a.dtype = Dtype::kInt8;
  const TestTensor more = TestTensor::Of(Dtype::kInt32, {3}, {100, 100, 300});
  EXPECT_EQ(RunOp(Op::kSum, {&more}, a)->Get(0), static_cast<int8_t>(100 + 100 + 300));
  EXPECT_EQ(RunOp(Op::kProd, {&more}, a)->Get(0), static_cast<int8_t>(100 * 100 * 300));
  const TestTensor halves = TestTensor::Of(Dtype::kFloat16, {3}, {60000, 60000, -60000});
  EXPECT_EQ(RunOp(Op::kSum, {&halves}, Everything())->Get(0), 60000);  // float32 between
  const TestTensor flags = TestTensor::Of(Dtype::kBool, {3}, {1, 0, 1});
  EXPECT_EQ(RunOp(Op::kSum, {&flags}, Everything())->Get(0), 2);
  EXPECT_EQ(RunOp(Op::kProd, {&flags}, Everything())->Get(0), 0);
}

TEST(Reduce, BoolIsAnyByteButZero) {
  TestTensor flags = TestTensor::Contiguous(Dtype::kBool, {3000});
  flags.view().as<uint8_t>()[2900] = 0x80;
  EXPECT_EQ(RunOp(Op::kSum, {&flags}, Everything())->Get(0), 1);
  const absl::StatusOr<TestTensor> any = RunOp(Op::kAny, {&flags}, Everything());
  EXPECT_EQ(*any->view().as<uint8_t>(), 1);
}

TEST(Reduce, MemoryIsGivenBackAndItsLackIsSaid) {
  std::mt19937 random(1);
  TestTensor x(Dtype::kFloat16, {700, 300}, Lay::kPermuted, random);
  x.Fill(random, -1, 1);
  Memory().fail = true;
  const absl::StatusOr<TestTensor> out = RunOp(Op::kSum, {&x}, Along({0}));
  Memory().fail = false;
  EXPECT_EQ(out.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RunOp(Op::kSum, {&x}, Along({0})).ok());
  EXPECT_EQ(Memory().live(), 0);
}

}  // namespace
}  // namespace tensord::cpu
