// Tensors from nothing, and random numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "kernels/cpu/team.h"
#include "kernels/ops/philox.h"
#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {
namespace {

Attributes Create(uint64_t seed = 0, uint64_t offset = 0, int64_t diagonal = 0, bool exclude_stop = false) {
  Attributes result;
  auto& attributes = result.emplace<CreateAttributes>();
  attributes.seed = seed;
  attributes.seed_offset = offset;
  attributes.diagonal = diagonal;
  attributes.exclude_stop = exclude_stop;
  return result;
}
Scalar I(int64_t v) { return {v, Dtype::kNone}; }
Scalar R(double v) { return {v, Dtype::kNone}; }

TEST(Create, ZerosOnesAndFull) {
  for (const Dtype dtype : AllDtypes()) {
    const TensorType type{dtype, {3, 100000 / 3}};
    const Tensor zeros = RunOp(Op::kZeros, {}, type, dtype, Create());
    const Tensor ones = RunOp(Op::kOnes, {}, type, dtype, Create());
    const Scalar value = dtype == Dtype::kBool ? Scalar{true, Dtype::kNone} : I(7);
    const Tensor full = RunOp(Op::kFull, {In(value)}, type, dtype, Create());
    for (const int64_t i : {int64_t{0}, int64_t{1}, int64_t{65535}, type.elements() - 1}) {
      const auto worth = [i](const Tensor& t) {
        return t.At(i).real ? t.At(i).value : static_cast<long double>(t.At(i).integer);
      };
      EXPECT_EQ(worth(zeros), 0) << DtypeName(dtype);
      EXPECT_EQ(worth(ones), 1) << DtypeName(dtype);
      EXPECT_EQ(worth(full), dtype == Dtype::kBool ? 1 : 7) << DtypeName(dtype);
    }
  }
  EXPECT_EQ(RunOp(Op::kOnes, {}, {Dtype::kFloat32, {}}, Dtype::kFloat32, Create()).At(0).value, 1);
  EXPECT_TRUE(RunOp(Op::kOnes, {}, {Dtype::kFloat32, {4, 0}}, Dtype::kFloat32, Create()).memory.empty());
}

TEST(Create, ArangeIsExactForIntegers) {
  const int64_t start = (int64_t{1} << 53) + 1;
  const Scalar from = I(start);
  const Scalar to = I(start + 3000);
  const Scalar by = I(3);
  const Tensor got = RunOp(Op::kArange, {In(from), In(to), In(by)}, {Dtype::kInt64, {1000}}, Dtype::kInt64, Create());
  for (int64_t i = 0; i < 1000; ++i) ASSERT_EQ(static_cast<int64_t>(got.At(i).integer), start + 3 * i);
  const Scalar ten = I(10);
  const Tensor one = RunOp(Op::kArange, {In(ten)}, {Dtype::kInt8, {10}}, Dtype::kInt8, Create());
  for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(static_cast<int64_t>(one.At(i).integer), i);
  const Scalar five = I(5);
  const Scalar zero = I(0);
  const Scalar down = I(-2);
  const Tensor back = RunOp(Op::kArange, {In(five), In(zero), In(down)}, {Dtype::kInt32, {3}}, Dtype::kInt32, Create());
  EXPECT_EQ(static_cast<int64_t>(back.At(2).integer), 1);
  const Scalar huge{~uint64_t{0} - 1, Dtype::kNone};
  const Scalar end{~uint64_t{0}, Dtype::kNone};
  EXPECT_EQ(static_cast<uint64_t>(
                RunOp(Op::kArange, {In(huge), In(end)}, {Dtype::kUint64, {1}}, Dtype::kUint64, Create()).At(0).integer),
            ~uint64_t{0} - 1);
}

TEST(Create, ArangeOfIntegersIntoReals) {
  const Scalar from{int64_t{-3}, Dtype::kNone};
  const Scalar to{int64_t{4000}, Dtype::kNone};
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    const Tensor got = RunOp(Op::kArange, {In(from), In(to)}, {dtype, {4003}}, dtype, Create());
    for (int64_t i = 0; i < 4003; ++i) {
      alignas(8) std::byte bytes[8];
      Write(dtype, Number::Real(static_cast<double>(i - 3)), bytes);
      ASSERT_EQ(got.At(i).value, Read(dtype, bytes).value) << DtypeName(dtype) << i;
    }
  }
}

TEST(Create, ArangeOfReals) {
  const Scalar from = R(0.5);
  const Scalar to = R(100);
  const Scalar by = R(0.1);
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64}) {
    const Tensor got = RunOp(Op::kArange, {In(from), In(to), In(by)}, {dtype, {995}}, dtype, Create());
    for (int64_t i = 0; i < 995; ++i) {
      alignas(8) std::byte bytes[8];
      Write(dtype, Number::Real(0.5 + static_cast<double>(i) * 0.1), bytes);
      ASSERT_EQ(got.At(i).value, Read(dtype, bytes).value) << DtypeName(dtype) << i;
    }
  }
}

TEST(Create, Linspace) {
  const Scalar a = R(-1);
  const Scalar b = R(2);
  const Tensor got = RunOp(Op::kLinspace, {In(a), In(b)}, {Dtype::kFloat32, {7}}, Dtype::kFloat32, Create());
  for (int64_t i = 0; i < 7; ++i)
    EXPECT_FLOAT_EQ(static_cast<float>(got.At(i).value), -1 + 0.5F * static_cast<float>(i));
  const Scalar tenth = R(0.1);
  const Scalar last = R(0.7);
  const Tensor ends = RunOp(Op::kLinspace, {In(tenth), In(last)}, {Dtype::kFloat64, {1001}}, Dtype::kFloat64, Create());
  EXPECT_EQ(ends.At(0).value, static_cast<long double>(0.1));
  EXPECT_EQ(ends.At(1000).value, static_cast<long double>(0.7));
  const Tensor open =
      RunOp(Op::kLinspace, {In(a), In(b)}, {Dtype::kFloat64, {6}}, Dtype::kFloat64, Create(0, 0, 0, true));
  EXPECT_DOUBLE_EQ(static_cast<double>(open.At(5).value), 1.5);
  EXPECT_EQ(RunOp(Op::kLinspace, {In(a), In(b)}, {Dtype::kFloat32, {1}}, Dtype::kFloat32, Create()).At(0).value, -1);
}

TEST(Create, EyeOnEveryDiagonal) {
  for (const int64_t k :
       {int64_t{0}, int64_t{1}, int64_t{-2}, int64_t{4}, int64_t{5}, int64_t{-3}, INT64_MAX, INT64_MIN}) {
    const Tensor got = RunOp(Op::kEye, {}, {Dtype::kFloat32, {3, 5}}, Dtype::kFloat32, Create(0, 0, k));
    for (int64_t r = 0; r < 3; ++r) {
      for (int64_t c = 0; c < 5; ++c) EXPECT_EQ(got.At(r * 5 + c).value, int128{c} - r == k ? 1 : 0) << k << r << c;
    }
  }
}

// Published with Random123 (kat_vectors, philox4x32 10 rounds).
TEST(Random, PhiloxKnownAnswers) {
  const auto expect = [](PhiloxBlock got, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    EXPECT_EQ(got.word[0], a);
    EXPECT_EQ(got.word[1], b);
    EXPECT_EQ(got.word[2], c);
    EXPECT_EQ(got.word[3], d);
  };
  expect(PhiloxRounds({{0, 0, 0, 0}}, 0, 0), 0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U);
  expect(PhiloxRounds({{~0U, ~0U, ~0U, ~0U}}, ~0U, ~0U), 0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU);
  expect(PhiloxRounds({{0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}}, 0xa4093822U, 0x299f31d0U), 0xd16cfe09U,
         0x94fdccebU, 0x5001e420U, 0x24126ea1U);
}

// What philox.h promises, computed one element at a time.
long double UniformOf(Dtype dtype, uint64_t seed, uint64_t c) {
  if (dtype == Dtype::kFloat64) {
    const PhiloxBlock b = Philox(seed, c / 2, kPhiloxDouble);
    const uint64_t bits = uint64_t{b.word[2 * (c % 2)]} << 32 | b.word[2 * (c % 2) + 1];
    return std::ldexp(static_cast<long double>(bits >> 11), -53);
  }
  const uint32_t word = Philox(seed, c / 4, kPhiloxSingle).word[c % 4];
  const int digits = dtype == Dtype::kFloat16 ? 11 : dtype == Dtype::kBfloat16 ? 8 : 24;
  return std::ldexp(static_cast<long double>(word >> (32 - digits)), -digits);
}
long double NormalOf(Dtype dtype, uint64_t seed, uint64_t c) {
  long double radius = 0;
  long double angle = 0;
  if (dtype == Dtype::kFloat64) {
    radius = 1 - UniformOf(dtype, seed, c & ~uint64_t{1});
    angle = UniformOf(dtype, seed, c | 1);
  } else {
    const PhiloxBlock b = Philox(seed, c / 4, kPhiloxSingle);
    radius = (static_cast<long double>(b.word[c % 4 / 2 * 2]) + 1) / 4294967296.0L;
    angle = static_cast<long double>(b.word[c % 4 / 2 * 2 + 1]) / 4294967296.0L;
  }
  const long double turn = angle * 6.283185307179586476925286766559L;
  return std::sqrt(-2 * std::log(radius)) * (c % 2 == 0 ? std::cos(turn) : std::sin(turn));
}

const std::vector<Dtype>& Reals() {
  static const auto* const reals =
      new std::vector<Dtype>{Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
  return *reals;
}

TEST(Random, NumbersDependOnSeedAndCounterAlone) {
  const int threads = cpu::Threads();
  for (const Dtype dtype : Reals()) {
    for (const uint64_t offset :
         {uint64_t{0}, uint64_t{1}, uint64_t{7}, (uint64_t{1} << 34) + 3, ~uint64_t{0} - 200000}) {
      for (const Op op : {Op::kRand, Op::kRandn}) {
        const int64_t n = 131075;
        std::vector<std::byte> first;
        for (const int team : {1, 3}) {
          cpu::SetThreads(team);
          const Tensor got = RunOp(op, {}, {dtype, {n}}, dtype, Create(0x123456789abcdefULL, offset));
          if (first.empty()) first = got.memory;
          EXPECT_EQ(got.memory, first) << "threads matter";
          for (int64_t i = 0; i < n; i += i < 3000 ? 1 : 997) {
            const uint64_t c = offset + static_cast<uint64_t>(i);
            const long double want =
                op == Op::kRand ? UniformOf(dtype, 0x123456789abcdefULL, c) : NormalOf(dtype, 0x123456789abcdefULL, c);
            const double ulps = op == Op::kRand ? 0 : dtype == Dtype::kFloat64 ? 4 : 0.51;
            // Near a zero of sine or cosine the digits are the angle's: absolutely small.
            const bool near = std::fabs(got.At(i).value - want) < 1e-14L;
            ASSERT_TRUE(Same(dtype, got.At(i), Number::Real(want), ulps) || (op == Op::kRandn && near))
                << RowOf(op).name << " " << DtypeName(dtype) << " " << i << ": " << static_cast<double>(got.At(i).value)
                << " " << static_cast<double>(want);
          }
        }
      }
    }
  }
  cpu::SetThreads(threads);
}

TEST(Random, LiesInTheRangeAndHasTheMoments) {
  for (const Dtype dtype : Reals()) {
    const int64_t n = 400000;
    const Tensor uniform = RunOp(Op::kRand, {}, {dtype, {n}}, dtype, Create(1));
    const Tensor normal = RunOp(Op::kRandn, {}, {dtype, {n}}, dtype, Create(2));
    long double sum = 0;
    long double mean = 0;
    long double square = 0;
    long double product = 0;
    for (int64_t i = 0; i < n; ++i) {
      const long double u = uniform.At(i).value;
      ASSERT_TRUE(u >= 0 && u < 1);
      sum += u;
      const long double z = normal.At(i).value;
      mean += z;
      square += z * z;
      if (i % 2 == 1) product += z * normal.At(i - 1).value;
    }
    const long double coarse = dtype == Dtype::kBfloat16  ? 0.002L
                               : dtype == Dtype::kFloat16 ? 0.0003L
                                                          : 0;  // half of a unit below
    EXPECT_NEAR(static_cast<double>(sum / n + coarse), 0.5, 0.003);
    EXPECT_NEAR(static_cast<double>(mean / n), 0, 0.01);
    EXPECT_NEAR(static_cast<double>(square / n), 1, 0.02);
    EXPECT_NEAR(static_cast<double>(product / (n / 2)), 0, 0.01);
  }
}

TEST(Random, AnEarlierDrawContinuesWhereItsCountersEnd) {
  const Tensor whole = RunOp(Op::kRandn, {}, {Dtype::kFloat32, {1000}}, Dtype::kFloat32, Create(5, 10));
  const Tensor rest = RunOp(Op::kRandn, {}, {Dtype::kFloat32, {999}}, Dtype::kFloat32, Create(5, 11));
  EXPECT_EQ(std::vector<std::byte>(whole.memory.begin() + 4, whole.memory.end()), rest.memory);
  const Tensor other = RunOp(Op::kRandn, {}, {Dtype::kFloat32, {1000}}, Dtype::kFloat32, Create(6, 10));
  EXPECT_NE(whole.memory, other.memory);
}

}  // namespace
}  // namespace tensord::testing
