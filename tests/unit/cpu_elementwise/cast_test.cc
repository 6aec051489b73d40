// The full matrix of casts.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/unit/cpu_elementwise/harness.h"

namespace tensord::testing {
namespace {

// The rules of cast, from the design: float to integer truncates and saturates, NaN gives 0; anything to bool is != 0,
// NaN is true; narrowing integers wraps; reals round to nearest even, once.
Number Expected(Dtype to, Number x) {
  if (to == Dtype::kBool) return Number::Of(x.real ? !(x.value == 0) : x.integer != 0);
  alignas(8) std::byte bytes[8];
  if (IsInteger(to) && x.real) {
    if (std::isnan(x.value)) return Number::Of(0);
    const bool is_signed = KindOf(to) == DtypeKind::kSigned;
    const int bits = static_cast<int>(ItemSize(to)) * 8 - (is_signed ? 1 : 0);
    const int128 high = (int128{1} << bits) - 1;
    const int128 low = is_signed ? -(int128{1} << bits) : 0;
    const long double whole = std::trunc(x.value);
    if (whole >= static_cast<long double>(high)) return Number::Of(high);
    if (whole <= static_cast<long double>(low)) return Number::Of(low);
    return Number::Of(static_cast<int128>(whole));
  }
  Write(to, x, bytes);
  return Read(to, bytes);
}

std::vector<Number> Values(Dtype dtype) {
  std::vector<Number> values = Edges(dtype);
  std::mt19937_64 generator(23);
  for (int i = 0; i < 3000; ++i) {
    alignas(8) uint64_t bits = generator() >> (generator() % 64);
    if (dtype == Dtype::kBool) bits &= 1;
    if (i % 3 == 0 && IsReal(dtype)) {
      // Within the ranges of the integers, and near the halfway points of the short reals.
      const long double v =
          std::ldexp(static_cast<long double>(static_cast<int64_t>(generator())), -static_cast<int>(generator() % 80));
      Write(dtype, Number::Real(v), &bits);
    }
    values.push_back(Read(dtype, &bits));
  }
  if (IsInteger(dtype) || dtype == Dtype::kFloat32 || dtype == Dtype::kFloat64) {
    // Just beside halfway between two of the short reals: rounding twice goes wrong here.
    for (int exponent = 8; exponent < 63; ++exponent) {
      for (const int digits : {8, 11, 24}) {
        if (exponent <= digits) continue;
        const int128 unit = int128{1} << (exponent - digits + 1);
        for (int k = 0; k < 3; ++k) {
          for (const int128 beside : {-1, 0, 1}) {
            const int128 v = (int128{1} << exponent) + k * unit + unit / 2 + beside;
            alignas(8) std::byte bytes[8];
            for (const int128 s : {v, -v}) {
              Write(dtype, IsReal(dtype) ? Number::Real(static_cast<long double>(s)) : Number::Of(s), bytes);
              values.push_back(Read(dtype, bytes));
            }
          }
        }
      }
    }
  }
  return values;
}

TEST(Cast, EveryPairOfDtypes) {
  for (const Dtype from : AllDtypes()) {
    const std::vector<Number> values = Values(from);
    const Tensor x = Vector(from, values);
    for (const Dtype to : AllDtypes()) {
      const Tensor got = RunOp(Op::kCast, {In(x)}, {to, x.view.shape}, from);
      int wrong = 0;
      for (size_t i = 0; i < values.size() && wrong < 3; ++i) {
        const Number want = Expected(to, values[i]);
        const Number value = got.At(static_cast<int64_t>(i));
        if (Same(to, value, want, 0)) continue;
        ++wrong;
        ADD_FAILURE() << DtypeName(from) << " to " << DtypeName(to) << ": " << Text(from, values[i]) << " became "
                      << Text(to, value) << ", expected " << Text(to, want);
      }
    }
  }
}

TEST(Cast, EveryShortReal) {
  for (const Dtype from : {Dtype::kFloat16, Dtype::kBfloat16}) {
    Tensor x(from, {65536});
    for (int64_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(x.memory.data() + 2 * i, &bits, 2);
    }
    for (const Dtype to :
         {Dtype::kFloat16, Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64, Dtype::kInt8, Dtype::kUint64}) {
      const Tensor got = RunOp(Op::kCast, {In(x)}, {to, {65536}}, from);
      int wrong = 0;
      for (int64_t i = 0; i < 65536; ++i) wrong += !Same(to, got.At(i), Expected(to, x.At(i)), 0);
      EXPECT_EQ(wrong, 0) << DtypeName(from) << " to " << DtypeName(to);
    }
    // And back from float32: the same bits, NaN made quiet.
    const Tensor wide = RunOp(Op::kCast, {In(x)}, {Dtype::kFloat32, {65536}}, from);
    const Tensor back = RunOp(Op::kCast, {In(wide)}, {from, {65536}}, Dtype::kFloat32);
    for (int64_t i = 0; i < 65536; ++i) {
      if (std::isnan(x.At(i).value)) {
        EXPECT_TRUE(std::isnan(back.At(i).value));
      } else {
        ASSERT_EQ(std::memcmp(back.memory.data() + 2 * i, x.memory.data() + 2 * i, 2), 0) << i;
      }
    }
  }
}

TEST(Cast, OutOfRangeAsDocumented) {
  const std::vector<Number> values = {Number::Real(std::nan("")), Number::Real(HUGE_VAL), Number::Real(-HUGE_VAL),
                                      Number::Real(3e9),          Number::Real(-1),       Number::Real(300),
                                      Number::Real(2.9),          Number::Real(-2.9)};
  const Tensor x = Vector(Dtype::kFloat32, values);
  const Tensor i32 = RunOp(Op::kCast, {In(x)}, {Dtype::kInt32, {8}}, Dtype::kFloat32);
  const int64_t want[8] = {0, 2147483647, -2147483648LL, 2147483647, -1, 300, 2, -2};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(static_cast<int64_t>(i32.At(i).integer), want[i]);
  const Tensor truth = RunOp(Op::kCast, {In(x)}, {Dtype::kBool, {8}}, Dtype::kFloat32);
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(static_cast<int>(truth.At(i).integer), 1);
}

}  // namespace
}  // namespace tensord::testing
