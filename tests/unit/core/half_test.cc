// float16 and bfloat16 against definitions that share nothing with the conversion: values from sign, exponent and
// fraction by ldexp, rounding by comparing with the two neighbours.
#include "kernels/core/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

namespace tensord {
namespace {

// A format of 16 bits: 1 sign, `exponent` bits, the rest fraction.
struct Format {
  int exponent;
  int fraction;

  int bias() const { return (1 << (exponent - 1)) - 1; }
  uint16_t infinity() const { return static_cast<uint16_t>(((1 << exponent) - 1) << fraction); }

  // The value of a bit pattern, by the definition of IEEE 754.
  double Value(uint16_t bits) const {
    const int sign = bits >> 15;
    const int e = bits >> fraction & ((1 << exponent) - 1);
    const int f = bits & ((1 << fraction) - 1);
    double value = 0;
    if (e == (1 << exponent) - 1) {
      value = f == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
    } else if (e == 0) {
      value = std::ldexp(f, 1 - bias() - fraction);
    } else {
      value = std::ldexp((1 << fraction) + f, e - bias() - fraction);
    }
    return sign ? -value : value;
  }

  // The pattern nearest to a positive finite value, ties to the even one, by search among the ordered patterns.
  uint16_t Nearest(double value) const {
    uint16_t low = 0;
    uint16_t high = infinity();
    while (high - low > 1) {
      const auto middle = static_cast<uint16_t>((low + high) / 2);
      (Value(middle) <= value ? low : high) = middle;
    }
    // Beyond the largest number the next step would be the power of two above it.
    const double below = Value(low);
    const double above = high == infinity() ? std::ldexp(1.0, bias() + 1) : Value(high);
    if (value - below < above - value) return low;
    if (value - below > above - value) return high;
    return low % 2 == 0 ? low : high;
  }
};

constexpr Format kHalf{5, 10};
constexpr Format kBfloat{8, 7};

template <class T>
class SixteenBits : public testing::Test {
 public:
  static Format format() { return std::is_same_v<T, Half> ? kHalf : kBfloat; }
  static T FromBits(uint16_t bits) {
    T value;
    value.bits = bits;
    return value;
  }
  static uint16_t Round(double value) { return T(static_cast<float>(value)).bits; }
};
using Types = testing::Types<Half, BFloat16>;
TYPED_TEST_SUITE(SixteenBits, Types);

TYPED_TEST(SixteenBits, EveryPatternHasItsValue) {
  const Format format = this->format();
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const double expected = format.Value(pattern);
    const auto got = static_cast<double>(static_cast<float>(this->FromBits(pattern)));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
    } else {
      ASSERT_EQ(std::bit_cast<uint64_t>(expected), std::bit_cast<uint64_t>(got)) << bits;
    }
  }
}

TYPED_TEST(SixteenBits, EveryPatternComesBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const auto value = static_cast<float>(this->FromBits(static_cast<uint16_t>(bits)));
    const TypeParam back(value);
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(back))) << bits;
      ASSERT_EQ(back.bits & 0x8000u, bits & 0x8000u) << "sign of NaN " << bits;
    } else {
      ASSERT_EQ(back.bits, bits);
    }
  }
}

TYPED_TEST(SixteenBits, MidpointsRoundToEven) {
  const Format format = this->format();
  for (uint16_t bits = 0; bits + 1 < format.infinity(); ++bits) {
    const double low = format.Value(bits);
    const double high = format.Value(static_cast<uint16_t>(bits + 1));
    const double middle = (low + high) / 2;
    ASSERT_EQ(middle, static_cast<double>(static_cast<float>(middle)));
    const uint16_t even = bits % 2 == 0 ? bits : static_cast<uint16_t>(bits + 1);
    ASSERT_EQ(this->Round(middle), even) << bits;
    ASSERT_EQ(this->Round(-middle), even | 0x8000u) << bits;
    const float f = static_cast<float>(middle);
    ASSERT_EQ(TypeParam(std::nextafter(f, 0.0f)).bits, bits) << bits;
    ASSERT_EQ(TypeParam(std::nextafter(f, std::numeric_limits<float>::infinity())).bits, bits + 1) << bits;
  }
}

TYPED_TEST(SixteenBits, RandomFloatsRoundToTheNearest) {
  const Format format = this->format();
  std::mt19937 generator(7);  // NOLINT: the same numbers every time
  for (int i = 0; i < 300000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(generator()));
    if (!std::isfinite(value)) continue;
    const uint16_t expected = format.Nearest(std::fabs(static_cast<double>(value)));
    const uint16_t sign = std::signbit(value) ? 0x8000u : 0u;
    ASSERT_EQ(TypeParam(value).bits, expected | sign) << value;
  }
}

TYPED_TEST(SixteenBits, FloatsInItsRangeRoundToTheNearest) {
  const Format format = this->format();
  std::mt19937 generator(11);  // NOLINT
  std::uniform_real_distribution<double> exponent(-26, 17);
  std::uniform_real_distribution<double> fraction(1, 2);
  for (int i = 0; i < 300000; ++i) {
    const auto value = static_cast<float>(fraction(generator) * std::exp2(std::floor(exponent(generator))));
    ASSERT_EQ(TypeParam(value).bits, format.Nearest(value)) << value;
  }
}

TYPED_TEST(SixteenBits, SpecialValues) {
  const Format format = this->format();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(TypeParam(kInfinity).bits, format.infinity());
  EXPECT_EQ(TypeParam(-kInfinity).bits, format.infinity() | 0x8000u);
  EXPECT_EQ(TypeParam(0.0f).bits, 0);
  EXPECT_EQ(TypeParam(-0.0f).bits, 0x8000u);
  EXPECT_EQ(TypeParam(std::numeric_limits<float>::max()).bits, format.infinity());
  // Every NaN of float32 stays one, quiet and signalling, whatever its payload.
  for (int shift = 0; shift < 23; ++shift) {
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const auto nan = std::bit_cast<float>(sign | 0x7f800000u | 1u << shift);
      EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(nan)))) << shift;
    }
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(TypeParam(std::bit_cast<float>(0x7fffffffu)))));
}

TEST(Half, LargestAndSmallest) {
  EXPECT_EQ(Half(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Half(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Half(65520.0f).bits, 0x7c00);
  EXPECT_EQ(Half(5.9604645e-08f).bits, 1);
  EXPECT_EQ(Half(2.9802322e-08f).bits, 0);  // half of the smallest: even is 0
  EXPECT_EQ(Half(2.9802326e-08f).bits, 1);
}

}  // namespace
}  // namespace tensord
