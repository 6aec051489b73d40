#include "proto/wire/tensor_data.h"

#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/core/half.h"
#include "tests/unit/wire/text.h"

namespace tensord::wire {
namespace {

template <class T>
std::string Bytes(const std::vector<T>& values) {
  std::string raw;
  for (const T& value : values) {
    char one[sizeof(T)];
    std::memcpy(one, &value, sizeof(T));
    raw.append(one, sizeof(T));
  }
  return raw;
}

TensorType Type(Dtype dtype, int64_t n) { return {dtype, {n}}; }

// Typed values give these bytes, and these bytes give the typed values.
void Both(const std::string& text, Dtype dtype, int64_t n, const std::string& raw) {
  const auto typed = Parse<v1::TensorData>(text);
  const auto bytes = FromProto(typed, Type(dtype, n));
  ASSERT_TRUE(bytes.ok()) << text << bytes.status();
  EXPECT_EQ(*bytes, raw) << text;
  EXPECT_EQ(ToProto(raw, Type(dtype, n), ValueFormat::kTyped).ShortDebugString(), typed.ShortDebugString());
  EXPECT_EQ(FormatOf(typed), ValueFormat::kTyped);
  const v1::TensorData as_raw = ToProto(raw, Type(dtype, n), ValueFormat::kRaw);
  EXPECT_EQ(as_raw.raw(), raw);
  EXPECT_EQ(*FromProto(as_raw, Type(dtype, n)), raw);
  EXPECT_EQ(FormatOf(as_raw), ValueFormat::kRaw);
}

TEST(TensorData, EveryDtypeIsExact) {
  Both("integers: [1, 0]", Dtype::kBool, 2, std::string("\1\0", 2));
  Both("integers: [-128, 127]", Dtype::kInt8, 2, Bytes<int8_t>({-128, 127}));
  Both("integers: [-32768, 32767]", Dtype::kInt16, 2, Bytes<int16_t>({-32768, 32767}));
  Both("integers: [-2147483648, 2147483647]", Dtype::kInt32, 2, Bytes<int32_t>({INT32_MIN, INT32_MAX}));
  Both("integers: [-9223372036854775808, 9223372036854775807]", Dtype::kInt64, 2,
       Bytes<int64_t>({INT64_MIN, INT64_MAX}));
  Both("unsigneds: [0, 255]", Dtype::kUint8, 2, Bytes<uint8_t>({0, 255}));
  Both("unsigneds: [0, 65535]", Dtype::kUint16, 2, Bytes<uint16_t>({0, 65535}));
  Both("unsigneds: [0, 4294967295]", Dtype::kUint32, 2, Bytes<uint32_t>({0, UINT32_MAX}));
  Both("unsigneds: [0, 18446744073709551615]", Dtype::kUint64, 2, Bytes<uint64_t>({0, UINT64_MAX}));
  Both("reals: [0.5, -65504]", Dtype::kFloat16, 2, std::string("\x00\x38\xff\xfb", 4));
  Both("reals: [0.5, -2]", Dtype::kBfloat16, 2, std::string("\x00\x3f\x00\xc0", 4));
  Both("reals: [0.25, -inf]", Dtype::kFloat32, 2, Bytes<float>({0.25F, -std::numeric_limits<float>::infinity()}));
  Both("reals: [0.1, 1e300]", Dtype::kFloat64, 2, Bytes<double>({0.1, 1e300}));
  Both("reals: [1, -2, 0.5, 3]", Dtype::kComplex64, 2, Bytes<std::complex<float>>({{1, -2}, {0.5F, 3}}));
  Both("reals: [1, -2]", Dtype::kComplex128, 1, Bytes<std::complex<double>>({{1, -2}}));
}

// All 65,536 patterns but NaNs, whose payload a double need not keep.
TEST(TensorData, SixteenBitRealsGoThereAndBack) {
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16}) {
    std::vector<uint16_t> patterns;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const auto pattern = static_cast<uint16_t>(bits);
      const float value = dtype == Dtype::kFloat16 ? static_cast<float>(std::bit_cast<Half>(pattern))
                                                   : static_cast<float>(std::bit_cast<BFloat16>(pattern));
      if (!std::isnan(value)) patterns.push_back(pattern);
    }
    const std::string raw = Bytes(patterns);
    const TensorType type = Type(dtype, static_cast<int64_t>(patterns.size()));
    const auto back = FromProto(ToProto(raw, type, ValueFormat::kTyped), type);
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_TRUE(*back == raw) << DtypeName(dtype);
  }
}

TEST(TensorData, RealsRoundToNearest) {
  EXPECT_EQ(*FromProto(Parse<v1::TensorData>("reals: 0.1"), Type(Dtype::kFloat32, 1)), Bytes<float>({0.1F}));
  EXPECT_EQ(*FromProto(Parse<v1::TensorData>("reals: 65519"), Type(Dtype::kFloat16, 1)), std::string("\xff\x7b", 2));
  const auto nan = FromProto(Parse<v1::TensorData>("reals: nan"), Type(Dtype::kFloat16, 1));
  ASSERT_TRUE(nan.ok());
  EXPECT_EQ(static_cast<uint8_t>((*nan)[1]) & 0x7c, 0x7c);
}

TEST(TensorData, EmptyTensors) {
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBool, Dtype::kComplex64}) {
    const auto empty = FromProto(v1::TensorData(), Type(dtype, 0));
    ASSERT_TRUE(empty.ok());
    EXPECT_EQ(*empty, "");
  }
  ExpectRefused(FromProto(Parse<v1::TensorData>("reals: 1"), Type(Dtype::kFloat32, 0)), Reason::kDataInvalid, "reals");
}

TEST(TensorData, Counts) {
  const auto raw = FromProto(Parse<v1::TensorData>("raw: 'abc'"), Type(Dtype::kFloat32, 1));
  ExpectRefused(raw, Reason::kDataInvalid, "raw");
  EXPECT_EQ(DetailsOf(raw.status()).Get("expected_bytes"), "4");
  EXPECT_EQ(DetailsOf(raw.status()).Get("got_bytes"), "3");
  const auto few = FromProto(Parse<v1::TensorData>("integers: [1, 2]"), Type(Dtype::kInt16, 3));
  ExpectRefused(few, Reason::kDataInvalid, "integers");
  EXPECT_EQ(DetailsOf(few.status()).Get("expected_bytes"), "6");
  EXPECT_EQ(DetailsOf(few.status()).Get("got_bytes"), "4");
  ExpectRefused(FromProto(Parse<v1::TensorData>("reals: [1, 2, 3]"), Type(Dtype::kComplex64, 1)), Reason::kDataInvalid,
                "reals");
  ExpectRefused(FromProto(v1::TensorData(), Type(Dtype::kInt16, 3)), Reason::kDataInvalid, "raw");
}

TEST(TensorData, OneListOfTheRightKind) {
  ExpectRefused(FromProto(Parse<v1::TensorData>("integers: 1 reals: 1"), Type(Dtype::kInt8, 1)), Reason::kDataInvalid,
                "");
  ExpectRefused(FromProto(Parse<v1::TensorData>("raw: 'a' integers: 1"), Type(Dtype::kInt8, 1)), Reason::kDataInvalid,
                "");
  for (const char* text : {"integers: 1", "unsigneds: 1", "strings: 'a'"}) {
    EXPECT_EQ(ReasonOf(FromProto(Parse<v1::TensorData>(text), Type(Dtype::kFloat32, 1)).status()),
              Reason::kDataInvalid);
  }
  for (const char* text : {"reals: 1", "unsigneds: 1", "strings: 'a'"}) {
    EXPECT_EQ(ReasonOf(FromProto(Parse<v1::TensorData>(text), Type(Dtype::kInt8, 1)).status()), Reason::kDataInvalid);
  }
  for (const char* text : {"reals: 1", "integers: 1", "strings: 'a'"}) {
    EXPECT_EQ(ReasonOf(FromProto(Parse<v1::TensorData>(text), Type(Dtype::kUint8, 1)).status()), Reason::kDataInvalid);
  }
}

TEST(TensorData, ValuesOutOfRangeAreNamed) {
  const auto refused = [](const std::string& text, Dtype dtype, int64_t n, Reason reason, const std::string& path) {
    const auto status = FromProto(Parse<v1::TensorData>(text), Type(dtype, n)).status();
    ExpectRefused(status, reason, path);
    return DetailsOf(status);
  };
  const ErrorDetails details = refused("integers: [1, 128]", Dtype::kInt8, 2, Reason::kScalarRange, "integers[1]");
  EXPECT_EQ(details.Get("value"), "128");
  EXPECT_EQ(details.Get("dtype"), "int8");
  EXPECT_EQ(details.Get("maximum"), "127");
  EXPECT_EQ(details.Get("element"), "1");
  refused("integers: -129", Dtype::kInt8, 1, Reason::kScalarRange, "integers[0]");
  refused("integers: 2147483648", Dtype::kInt32, 1, Reason::kScalarRange, "integers[0]");
  refused("unsigneds: [0, 0, 256]", Dtype::kUint8, 3, Reason::kScalarRange, "unsigneds[2]");
  refused("unsigneds: 4294967296", Dtype::kUint32, 1, Reason::kScalarRange, "unsigneds[0]");
  refused("reals: [1, 65520]", Dtype::kFloat16, 2, Reason::kScalarRange, "reals[1]");
  refused("reals: -3.5e38", Dtype::kFloat32, 1, Reason::kScalarRange, "reals[0]");
  refused("reals: [0, 1e39]", Dtype::kComplex64, 1, Reason::kScalarRange, "reals[1]");
  EXPECT_EQ(refused("integers: [0, 2]", Dtype::kBool, 2, Reason::kDataInvalid, "integers[1]").Get("element"), "1");
  EXPECT_EQ(refused("raw: '\\001\\000\\002'", Dtype::kBool, 3, Reason::kDataInvalid, "raw").Get("element"), "2");
}

}  // namespace
}  // namespace tensord::wire
