#include "kernels/core/scalar.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/core/error.h"

namespace tensord {
namespace {

template <class T>
absl::StatusOr<T> Store(const Scalar& scalar) {
  T out{};
  if (const absl::Status status = StoreScalar(scalar, DtypeOf<T>, &out); !status.ok()) return status;
  return out;
}

template <class T>
bool Refuses(const Scalar& scalar) {
  return ReasonOf(Store<T>(scalar).status()) == Reason::kScalarRange;
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(Scalar, Kinds) {
  EXPECT_EQ(Scalar{true}.kind(), DtypeKind::kBool);
  EXPECT_EQ(Scalar{int64_t{-3}}.kind(), DtypeKind::kSigned);
  EXPECT_EQ(Scalar{uint64_t{1} << 63}.kind(), DtypeKind::kSigned);
  EXPECT_EQ(Scalar{2.5}.kind(), DtypeKind::kReal);
  EXPECT_TRUE(Scalar{}.absent());
}

TEST(Scalar, Text) {
  EXPECT_EQ(Scalar{true}.ToString(), "True");
  EXPECT_EQ(Scalar{false}.ToString(), "False");
  EXPECT_EQ(Scalar{int64_t{-3}}.ToString(), "-3");
  EXPECT_EQ(Scalar{~uint64_t{0}}.ToString(), "18446744073709551615");
  EXPECT_EQ(Scalar{2.5}.ToString(), "2.5");
  EXPECT_EQ(Scalar{0.1}.ToString(), "0.1");
  EXPECT_EQ(Scalar{}.ToString(), "-");
}

TEST(Scalar, AsInt64) {
  EXPECT_EQ(Scalar{2.9}.AsInt64(), 2);
  EXPECT_EQ(Scalar{-2.9}.AsInt64(), -2);
  EXPECT_EQ(Scalar{1e300}.AsInt64(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Scalar{-1e300}.AsInt64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Scalar{9223372036854775808.0}.AsInt64(), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(Scalar{-9223372036854775808.0}.AsInt64(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(Scalar{std::nan("")}.AsInt64(), 0);
  EXPECT_EQ(Scalar{~uint64_t{0}}.AsInt64(), -1);
  EXPECT_EQ(Scalar{true}.AsInt64(), 1);
}

TEST(StoreScalar, IntegersWithinRange) {
  EXPECT_EQ(*Store<int8_t>({int64_t{127}}), 127);
  EXPECT_EQ(*Store<int8_t>({int64_t{-128}}), -128);
  EXPECT_EQ(*Store<uint8_t>({int64_t{255}}), 255);
  EXPECT_EQ(*Store<int64_t>({std::numeric_limits<int64_t>::min()}), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*Store<uint64_t>({~uint64_t{0}}), ~uint64_t{0});
  EXPECT_EQ(*Store<int32_t>({true}), 1);
}

TEST(StoreScalar, IntegersOutOfRange) {
  EXPECT_TRUE(Refuses<int8_t>({int64_t{128}}));
  EXPECT_TRUE(Refuses<int8_t>({int64_t{-129}}));
  EXPECT_TRUE(Refuses<uint8_t>({int64_t{256}}));
  EXPECT_TRUE(Refuses<uint8_t>({int64_t{-1}}));
  EXPECT_TRUE(Refuses<uint64_t>({int64_t{-1}}));
  EXPECT_TRUE(Refuses<int64_t>({uint64_t{1} << 63}));
  EXPECT_TRUE(Refuses<int32_t>({2.0})) << "a real number is no integer, whole or not";
}

TEST(StoreScalar, SaysTheRange) {
  const absl::Status status = Store<int8_t>({int64_t{300}}).status();
  EXPECT_EQ(status.message(), "300 does not fit int8, which holds -128 to 127");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(StoreScalar, Reals) {
  EXPECT_EQ(*Store<float>({2.5}), 2.5f);
  EXPECT_EQ(*Store<float>({int64_t{16777217}}), 16777216.0f) << "integers are rounded to nearest";
  EXPECT_EQ(*Store<double>({int64_t{3}}), 3.0);
  EXPECT_EQ(*Store<double>({true}), 1.0);
  EXPECT_EQ(Store<Half>({65504.0})->bits, 0x7bff);
  EXPECT_EQ(Store<Half>({kInfinity})->bits, 0x7c00) << "an infinity is one in every real dtype";
  EXPECT_EQ(Store<BFloat16>({-kInfinity})->bits, 0xff80);
  EXPECT_TRUE(std::isnan(*Store<float>({std::nan("")})));
  EXPECT_TRUE(std::signbit(*Store<float>({-0.0})));
}

TEST(StoreScalar, FiniteRealsThatWouldBecomeInfinite) {
  EXPECT_TRUE(Refuses<float>({1e39}));
  EXPECT_TRUE(Refuses<float>({-1e39}));
  EXPECT_TRUE(Refuses<Half>({65520.0}));
  EXPECT_TRUE(Refuses<Half>({int64_t{70000}}));
  EXPECT_TRUE(Refuses<BFloat16>({3.4e38}));
  EXPECT_EQ(Store<Half>({65519.0})->bits, 0x7bff) << "what rounds to the largest fits";
}

TEST(StoreScalar, AnythingGoesIntoBool) {
  EXPECT_EQ(*Store<bool>({int64_t{0}}), false);
  EXPECT_EQ(*Store<bool>({int64_t{-7}}), true);
  EXPECT_EQ(*Store<bool>({0.0}), false);
  EXPECT_EQ(*Store<bool>({-0.0}), false);
  EXPECT_EQ(*Store<bool>({0.5}), true);
  EXPECT_EQ(*Store<bool>({std::nan("")}), true);
  EXPECT_EQ(*Store<bool>({uint64_t{1} << 63}), true);
}

TEST(StoreScalar, ComplexAndNoneAreRefused) {
  unsigned char out[16];
  for (const Dtype dtype : {Dtype::kComplex64, Dtype::kComplex128, Dtype::kNone}) {
    EXPECT_EQ(ReasonOf(StoreScalar({1.0}, dtype, out)), Reason::kScalarRange) << DtypeName(dtype);
  }
}

}  // namespace
}  // namespace tensord
