// Every row of the elementwise families, for every dtype it takes, over every pair of edge values and some random bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/unit/cpu_elementwise/reference.h"

namespace tensord::testing {
namespace {

std::vector<Op> Rows(std::initializer_list<Family> families) {
  std::vector<Op> ops;
  for (int i = 1; i <= kOpCount; ++i) {
    const OpRow& row = RowOf(static_cast<Op>(i));
    if (std::find(families.begin(), families.end(), row.family) != families.end()) ops.push_back(row.op);
  }
  return ops;
}

// Numbers with random bits, and random ones near 1.
std::vector<Number> Randoms(Dtype dtype, int count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::vector<Number> numbers;
  for (int i = 0; i < count; ++i) {
    alignas(8) uint64_t bits = generator();
    if (dtype == Dtype::kBool) bits &= 1;
    if (IsReal(dtype) && i % 2 == 0) {
      const long double near = (static_cast<long double>(bits >> 11) * 0x1p-53L * 2 - 1) * std::ldexp(1.0L, i % 14 - 6);
      Write(dtype, Number::Real(near), &bits);
    }
    numbers.push_back(Read(dtype, &bits));
  }
  return numbers;
}

void Compare(Op op, Dtype dtype, const Tensor& got, const std::vector<Number>& a, const std::vector<Number>& b) {
  int wrong = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const Expected expected = Reference(op, dtype, a[i], b[i]);
    const Number value = got.At(static_cast<int64_t>(i));
    if (Agrees(got.view.dtype, value, expected)) continue;
    if (++wrong > 3) break;
    ADD_FAILURE() << RowOf(op).name << " " << DtypeName(dtype) << " (" << Text(dtype, a[i]) << ", " << Text(dtype, b[i])
                  << ") = " << Text(got.view.dtype, value) << ", expected " << Text(got.view.dtype, expected.exact);
  }
}

TEST(Elementwise, EveryRowHasAReference) {
  for (const Op op : Rows({Family::kUnary, Family::kBinary, Family::kCompare})) {
    EXPECT_TRUE(HasReference(op)) << RowOf(op).name << ": add a line to reference.cc";
  }
}

TEST(Elementwise, UnaryOverEdgesAndRandomBits) {
  for (const Op op : Rows({Family::kUnary})) {
    for (const Dtype dtype : AllDtypes()) {
      if (!Takes(op, dtype) || !HasReference(op)) continue;
      std::vector<Number> a = Edges(dtype);
      for (const Number& n : Randoms(dtype, 4000, 7)) a.push_back(n);
      const Tensor x = Vector(dtype, a);
      const Tensor got = RunOp(op, {In(x)}, {MakesBool(op) ? Dtype::kBool : dtype, x.view.shape}, dtype);
      Compare(op, dtype, got, a, a);
    }
  }
}

TEST(Elementwise, BinaryAndCompareOverAllPairsOfEdges) {
  for (const Op op : Rows({Family::kBinary, Family::kCompare})) {
    for (const Dtype dtype : AllDtypes()) {
      if (!Takes(op, dtype) || !HasReference(op)) continue;
      std::vector<Number> a;
      std::vector<Number> b;
      for (const Number& x : Edges(dtype)) {
        for (const Number& y : Edges(dtype)) {
          a.push_back(x);
          b.push_back(y);
        }
      }
      const std::vector<Number> r = Randoms(dtype, 4000, 11);
      const std::vector<Number> s = Randoms(dtype, 4000, 13);
      a.insert(a.end(), r.begin(), r.end());
      b.insert(b.end(), s.begin(), s.end());
      const Tensor x = Vector(dtype, a);
      const Tensor y = Vector(dtype, b);
      const Tensor got = RunOp(op, {In(x), In(y)}, {MakesBool(op) ? Dtype::kBool : dtype, x.view.shape}, dtype);
      Compare(op, dtype, got, a, b);
    }
  }
}

TEST(Elementwise, NaNsSignBitIsSeen) {
  const float values[2] = {std::copysign(std::nanf(""), -1.0F), std::copysign(std::nanf(""), 1.0F)};
  Tensor x(Dtype::kFloat32, {2});
  std::memcpy(x.memory.data(), values, sizeof(values));
  const Tensor got = RunOp(Op::kSignbit, {In(x)}, {Dtype::kBool, {2}}, Dtype::kFloat32);
  EXPECT_EQ(got.At(0).integer, 1);
  EXPECT_EQ(got.At(1).integer, 0);
}

Tensor Reals(Dtype dtype, std::initializer_list<double> values) {
  std::vector<Number> numbers;
  for (const double v : values) numbers.push_back(Number::Real(v));
  return Vector(dtype, numbers);
}
Tensor Integers(Dtype dtype, std::initializer_list<int64_t> values) {
  std::vector<Number> numbers;
  for (const int64_t v : values) numbers.push_back(Number::Of(v));
  return Vector(dtype, numbers);
}
std::vector<int64_t> IntegersOf(const Tensor& t) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < t.view.elements(); ++i) out.push_back(static_cast<int64_t>(t.At(i).integer));
  return out;
}
std::vector<double> RealsOf(const Tensor& t) {
  std::vector<double> out;
  for (int64_t i = 0; i < t.view.elements(); ++i) out.push_back(static_cast<double>(t.At(i).value));
  return out;
}

TEST(Elementwise, FloorDivisionOfNegatives) {
  const Tensor a = Integers(Dtype::kInt32, {-3, 3, -7, 7});
  const Tensor b = Integers(Dtype::kInt32, {2, -2, -2, 2});
  EXPECT_EQ(IntegersOf(RunOp(Op::kFloorDivide, {In(a), In(b)}, a.view.type(), Dtype::kInt32)),
            (std::vector<int64_t>{-2, -2, 3, 3}));
  const Tensor c = Reals(Dtype::kFloat32, {-3, 3, -7, 7, -2.3});
  const Tensor d = Reals(Dtype::kFloat32, {2, -2, -2, 2, INFINITY});
  EXPECT_EQ(RealsOf(RunOp(Op::kFloorDivide, {In(c), In(d)}, c.view.type(), Dtype::kFloat32)),
            (std::vector<double>{-2, -2, 3, 3, -1}));
}

TEST(Elementwise, RemainderAndFmodDisagreeOnSigns) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kInt32}) {
    const Tensor a = dtype == Dtype::kInt32 ? Integers(dtype, {5, 5, -5, -5}) : Reals(dtype, {5, 5, -5, -5});
    const Tensor b = dtype == Dtype::kInt32 ? Integers(dtype, {3, -3, 3, -3}) : Reals(dtype, {3, -3, 3, -3});
    const Tensor remainder = RunOp(Op::kRemainder, {In(a), In(b)}, a.view.type(), dtype);
    const Tensor fmod = RunOp(Op::kFmod, {In(a), In(b)}, a.view.type(), dtype);
    if (dtype == Dtype::kInt32) {
      EXPECT_EQ(IntegersOf(remainder), (std::vector<int64_t>{2, -1, 1, -2}));
      EXPECT_EQ(IntegersOf(fmod), (std::vector<int64_t>{2, 2, -2, -2}));
    } else {
      EXPECT_EQ(RealsOf(remainder), (std::vector<double>{2, -1, 1, -2}));
      EXPECT_EQ(RealsOf(fmod), (std::vector<double>{2, 2, -2, -2}));
    }
  }
  const Tensor a = Reals(Dtype::kFloat32, {-1});
  const Tensor b = Reals(Dtype::kFloat32, {1});
  const Tensor zero = RunOp(Op::kRemainder, {In(a), In(b)}, a.view.type(), Dtype::kFloat32);
  EXPECT_FALSE(std::signbit(zero.At(0).value));
}

TEST(Elementwise, IntegersWrap) {
  const Tensor a = Integers(Dtype::kUint8, {3, 200, 16});
  const Tensor b = Integers(Dtype::kUint8, {4, 100, 17});
  EXPECT_EQ(IntegersOf(RunOp(Op::kSubtract, {In(a), In(b)}, a.view.type(), Dtype::kUint8))[0], 255);
  EXPECT_EQ(IntegersOf(RunOp(Op::kAdd, {In(a), In(b)}, a.view.type(), Dtype::kUint8))[1], 44);
  EXPECT_EQ(IntegersOf(RunOp(Op::kMultiply, {In(a), In(b)}, a.view.type(), Dtype::kUint8))[2], 16);
  const Tensor low = Integers(Dtype::kInt8, {-128});
  EXPECT_EQ(IntegersOf(RunOp(Op::kAbs, {In(low)}, low.view.type(), Dtype::kInt8))[0], -128);
}

TEST(Elementwise, PromotedOperandsAreConvertedOnTheWay) {
  const Tensor a = Integers(Dtype::kInt32, {1, -2, 16777217});
  const Tensor b = Reals(Dtype::kFloat32, {0.5, 0.25, 0});
  EXPECT_EQ(RealsOf(RunOp(Op::kAdd, {In(a), In(b)}, b.view.type(), Dtype::kFloat32)),
            (std::vector<double>{1.5, -1.75, 16777216}));
  // An integer beside float16 is rounded to float16 first.
  const Tensor c = Integers(Dtype::kInt32, {2049});
  const Tensor d = Reals(Dtype::kFloat16, {-2048});
  EXPECT_EQ(RealsOf(RunOp(Op::kAdd, {In(c), In(d)}, d.view.type(), Dtype::kFloat16)), (std::vector<double>{0}));
  const Tensor u = Integers(Dtype::kUint8, {200});
  const Tensor s = Integers(Dtype::kInt8, {-100});
  EXPECT_EQ(IntegersOf(RunOp(Op::kAdd, {In(u), In(s)}, {Dtype::kInt16, {1}}, Dtype::kInt16)),
            (std::vector<int64_t>{100}));
}

TEST(Elementwise, ScalarsTakeEitherPlace) {
  const Tensor x = Reals(Dtype::kFloat16, {1, 2, 3});
  const Scalar two{2.0, Dtype::kNone};
  EXPECT_EQ(RealsOf(RunOp(Op::kSubtract, {In(x), In(two)}, x.view.type(), Dtype::kFloat16)),
            (std::vector<double>{-1, 0, 1}));
  EXPECT_EQ(RealsOf(RunOp(Op::kSubtract, {In(two), In(x)}, x.view.type(), Dtype::kFloat16)),
            (std::vector<double>{1, 0, -1}));
  const Scalar large{uint64_t{1} << 63, Dtype::kNone};
  const Tensor u = Integers(Dtype::kUint64, {1});
  EXPECT_EQ(static_cast<uint64_t>(RunOp(Op::kAdd, {In(u), In(large)}, u.view.type(), Dtype::kUint64).At(0).integer),
            (uint64_t{1} << 63) + 1);
}

TEST(Elementwise, BoolsOtherThanOneAreTrue) {
  Tensor a(Dtype::kBool, {3});
  Tensor b(Dtype::kBool, {3});
  a.memory = {std::byte{2}, std::byte{1}, std::byte{0}};
  b.memory = {std::byte{1}, std::byte{255}, std::byte{0}};
  a.view.data = a.memory.data();
  b.view.data = b.memory.data();
  const TensorType type{Dtype::kBool, {3}};
  EXPECT_EQ(IntegersOf(RunOp(Op::kEqual, {In(a), In(b)}, type, Dtype::kBool)), (std::vector<int64_t>{1, 1, 1}));
  EXPECT_EQ(IntegersOf(RunOp(Op::kBitwiseAnd, {In(a), In(b)}, type, Dtype::kBool)), (std::vector<int64_t>{1, 1, 0}));
  const Tensor inverted = RunOp(Op::kBitwiseInvert, {In(a)}, type, Dtype::kBool);
  EXPECT_EQ(inverted.memory, (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{1}}));
  EXPECT_EQ(IntegersOf(RunOp(Op::kCast, {In(a)}, {Dtype::kInt64, {3}}, Dtype::kBool)), (std::vector<int64_t>{1, 1, 0}));
}

TEST(Elementwise, WhereMovesElementsOfEveryDtype) {
  for (const Dtype dtype : AllDtypes()) {
    const std::vector<Number> edges = Edges(dtype);
    const auto n = static_cast<int64_t>(edges.size());
    const Tensor a = Vector(dtype, edges);
    Tensor b(dtype, {n});
    Tensor condition(Dtype::kBool, {n});
    for (int64_t i = 0; i < n; ++i) {
      b.Set(i, edges[static_cast<size_t>(n - 1 - i)]);
      condition.Set(i, Number::Of(i % 3 == 0));
    }
    const Tensor got = RunOp(Op::kWhere, {In(condition), In(a), In(b)}, a.view.type(), dtype);
    for (int64_t i = 0; i < n; ++i) {
      const Number want = i % 3 == 0 ? a.At(i) : b.At(i);
      EXPECT_TRUE(Same(dtype, got.At(i), want, 0)) << DtypeName(dtype) << " " << i;
    }
  }
}

TEST(Elementwise, ClipWithBoundsLeftOut) {
  const double nan = std::nan("");
  const Tensor x = Reals(Dtype::kFloat32, {-5, 0, 6, 7, nan});
  const Scalar absent;
  const Scalar six{6.0, Dtype::kNone};
  const auto clip = [&x](const Scalar& low, const Scalar& high) {
    return RealsOf(RunOp(Op::kClip, {In(x), In(low), In(high)}, x.view.type(), Dtype::kFloat32));
  };
  std::vector<double> got = clip(absent, six);
  EXPECT_TRUE(std::isnan(got.back()));
  got.pop_back();
  EXPECT_EQ(got, (std::vector<double>{-5, 0, 6, 6}));
  got = clip(absent, absent);
  got.pop_back();
  EXPECT_EQ(got, (std::vector<double>{-5, 0, 6, 7}));
  got = clip(Scalar{4.0, Dtype::kNone}, Scalar{2.0, Dtype::kNone});
  got.pop_back();
  EXPECT_EQ(got, (std::vector<double>{2, 2, 2, 2}));
  EXPECT_EQ(RealsOf(RunOp(Op::kClip, {In(x)}, x.view.type(), Dtype::kFloat32))[3], 7);

  for (const Dtype dtype : AllDtypes()) {
    if (dtype == Dtype::kBool) continue;
    const std::vector<Number> edges = Edges(dtype);
    const Tensor values = Vector(dtype, edges);
    const Tensor low = Vector(dtype, {IsReal(dtype) ? Number::Real(1) : Number::Of(1)});
    const Tensor high = Vector(dtype, {IsReal(dtype) ? Number::Real(5) : Number::Of(5)});
    const Tensor out = RunOp(Op::kClip, {In(values), In(low), In(high)}, values.view.type(), dtype);
    for (size_t i = 0; i < edges.size(); ++i) {
      Number want = edges[i];
      if (want.real) {
        if (want.value < 1) want.value = 1;
        if (want.value > 5) want.value = 5;
      } else {
        want.integer = std::min<int128>(std::max<int128>(want.integer, 1), 5);
      }
      EXPECT_TRUE(Same(dtype, out.At(static_cast<int64_t>(i)), want, 0))
          << DtypeName(dtype) << " " << Text(dtype, edges[i]);
    }
  }
}

TEST(Elementwise, WhatHasNoKernelIsRefused) {
  Tensor x(Dtype::kComplex64, {2});
  Tensor out(Dtype::kComplex64, {2});
  const Attributes none;
  const KernelOperand operand = In(x);
  KernelCall call{Op::kExp, &none, Dtype::kComplex64, absl::MakeConstSpan(&operand, 1),
                  absl::MakeConstSpan(&out.view, 1)};
  EXPECT_EQ(Cpu().Run(call, 0, Cpu().memory()).code(), absl::StatusCode::kUnimplemented);
  EXPECT_FALSE(Cpu().Supports(Op::kExp, Dtype::kComplex64));
  EXPECT_FALSE(Cpu().Supports(Op::kExp, Dtype::kInt32));
  EXPECT_TRUE(Cpu().Supports(Op::kExp, Dtype::kBfloat16));
}

}  // namespace
}  // namespace tensord::testing
