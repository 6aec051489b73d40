#include "kernels/core/dtype.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "kernels/core/device_id.h"

namespace tensord {
namespace {

struct Expected {
  Dtype dtype;
  int number;
  const char* name;
  size_t bytes;
  DtypeKind kind;
};

// Written by hand from the wire contract (tensord.v1.Dtype).
constexpr Expected kExpected[] = {
    {Dtype::kBool, 1, "bool", 1, DtypeKind::kBool},
    {Dtype::kInt8, 2, "int8", 1, DtypeKind::kSigned},
    {Dtype::kInt16, 3, "int16", 2, DtypeKind::kSigned},
    {Dtype::kInt32, 4, "int32", 4, DtypeKind::kSigned},
    {Dtype::kInt64, 5, "int64", 8, DtypeKind::kSigned},
    {Dtype::kUint8, 6, "uint8", 1, DtypeKind::kUnsigned},
    {Dtype::kUint16, 7, "uint16", 2, DtypeKind::kUnsigned},
    {Dtype::kUint32, 8, "uint32", 4, DtypeKind::kUnsigned},
    {Dtype::kUint64, 9, "uint64", 8, DtypeKind::kUnsigned},
    {Dtype::kFloat16, 10, "float16", 2, DtypeKind::kReal},
    {Dtype::kBfloat16, 11, "bfloat16", 2, DtypeKind::kReal},
    {Dtype::kFloat32, 12, "float32", 4, DtypeKind::kReal},
    {Dtype::kFloat64, 13, "float64", 8, DtypeKind::kReal},
    {Dtype::kComplex64, 14, "complex64", 8, DtypeKind::kComplex},
    {Dtype::kComplex128, 15, "complex128", 16, DtypeKind::kComplex},
};

TEST(Dtype, EveryRowIsTheContracts) {
  EXPECT_EQ(std::size(kExpected) + 1, static_cast<size_t>(kDtypeCount));
  for (const Expected& e : kExpected) {
    EXPECT_EQ(static_cast<int>(e.dtype), e.number);
    EXPECT_EQ(DtypeName(e.dtype), e.name);
    EXPECT_EQ(ParseDtype(e.name), e.dtype);
    EXPECT_EQ(ItemSize(e.dtype), e.bytes);
    EXPECT_EQ(KindOf(e.dtype), e.kind);
    EXPECT_TRUE(IsValid(e.dtype));
    EXPECT_EQ(IsInteger(e.dtype), e.kind == DtypeKind::kSigned || e.kind == DtypeKind::kUnsigned);
    EXPECT_EQ(IsReal(e.dtype), e.kind == DtypeKind::kReal);
    EXPECT_EQ(IsComplex(e.dtype), e.kind == DtypeKind::kComplex);
    // Complex types wait for a later family; all others are named in messages.
    EXPECT_EQ(KnownDtypes().find(e.name) != std::string_view::npos, e.kind != DtypeKind::kComplex) << e.name;
  }
}

TEST(Dtype, NamesThatAreNone) {
  for (const char* name : {"", "none", "Float32", "float", "float32 ", "int", "uint128", "bool8"}) {
    EXPECT_FALSE(ParseDtype(name).has_value()) << name;
  }
  EXPECT_FALSE(IsValid(Dtype::kNone));
  EXPECT_EQ(ItemSize(Dtype::kNone), 0u);
  // A number from elsewhere is no dtype and harms nobody.
  const auto foreign = static_cast<Dtype>(200);
  EXPECT_FALSE(IsValid(foreign));
  EXPECT_EQ(DtypeName(foreign), "none");
  EXPECT_EQ(ItemSize(foreign), 0u);
}

TEST(Dtype, VisitGivesTheStorageType) {
  std::set<Dtype> seen;
  for (int i = -1; i < kDtypeCount + 3; ++i) {
    const auto dtype = static_cast<Dtype>(i);
    const bool called = VisitDtype(dtype, [&]<class T>() {
      EXPECT_EQ(DtypeOf<T>, dtype);
      EXPECT_EQ(sizeof(T), ItemSize(dtype));
      seen.insert(dtype);
    });
    EXPECT_EQ(called, IsValid(dtype) && !IsComplex(dtype)) << i;
  }
  EXPECT_EQ(seen.size(), 13u);
}

TEST(DeviceId, ParsesWhatItPrints) {
  EXPECT_EQ(DeviceId::Parse("")->ToString(), "cpu");
  EXPECT_EQ(DeviceId::Parse("cpu")->ToString(), "cpu");
  EXPECT_EQ(DeviceId::Parse("cpu:0")->ToString(), "cpu");
  EXPECT_EQ(DeviceId::Parse("cuda")->ToString(), "cuda:0");
  EXPECT_EQ(DeviceId::Parse("cuda:7")->ToString(), "cuda:7");
  EXPECT_EQ(DeviceId::Parse("cuda:4294967295")->index, 4294967295u);
}

TEST(DeviceId, RefusesWhatIsNoDevice) {
  for (const char* text : {"cpu:1", "cuda:", "cuda:-1", "cuda:+1", "cuda: 1", "cuda:1 ", "cuda:4294967296", "CUDA:0",
                           "gpu", "cuda:1x", "cuda:0x1", "cpu:", "c"}) {
    EXPECT_FALSE(DeviceId::Parse(text).has_value()) << text;
  }
}

TEST(DeviceId, CpuComesFirst) {
  const DeviceId cpu;
  const DeviceId first{DeviceKind::kCuda, 0};
  const DeviceId second{DeviceKind::kCuda, 1};
  EXPECT_LT(cpu, first);
  EXPECT_LT(first, second);
  EXPECT_EQ(first, *DeviceId::Parse("cuda"));
}

}  // namespace
}  // namespace tensord
