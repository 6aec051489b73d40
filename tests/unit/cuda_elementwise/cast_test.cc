// The full matrix of casts, against the CPU's, whose own test has the rules.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "kernels/core/text.h"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

std::vector<Number> Values(Dtype dtype) {
  std::vector<Number> values = Edges(dtype);
  std::mt19937_64 generator(23);
  for (int i = 0; i < 2000; ++i) {
    alignas(8) uint64_t bits = generator() >> (generator() % 64);
    if (dtype == Dtype::kBool) bits &= 1;
    if (i % 3 == 0 && IsReal(dtype)) {
      // Within the ranges of the integers.
      const long double v =
          std::ldexp(static_cast<long double>(static_cast<int64_t>(generator())), -static_cast<int>(generator() % 80));
      Write(dtype, Number::Real(v), &bits);
    }
    values.push_back(Read(dtype, &bits));
  }
  if (dtype == Dtype::kBool || IsHalfDtype(dtype)) return values;
  // Just beside halfway between two of the short reals: rounding twice goes wrong here.
  for (int exponent = 8; exponent < 63; ++exponent) {
    for (const int digits : {8, 11, 24}) {
      if (exponent <= digits) continue;
      const int128 unit = int128{1} << (exponent - digits + 1);
      for (int k = 0; k < 3; ++k) {
        for (const int128 beside : {-1, 0, 1}) {
          const int128 v = (int128{1} << exponent) + k * unit + unit / 2 + beside;
          for (const int128 s : {v, -v}) {
            alignas(8) std::byte bytes[8];
            Write(dtype, IsReal(dtype) ? Number::Real(static_cast<long double>(s)) : Number::Of(s), bytes);
            values.push_back(Read(dtype, bytes));
          }
        }
      }
    }
  }
  // And beside halfway between subnormals.
  if (dtype == Dtype::kFloat64) {
    for (const int lowest : {-24, -133, -149}) {
      for (int k = 0; k < 40; ++k) {
        for (const double beside : {-1e-9, 0.0, 1e-9})
          values.push_back(Number::Real(static_cast<double>(std::ldexp(0.5 * k + beside, lowest))));
      }
    }
  }
  return values;
}

TEST(CudaCast, EveryPairOfDtypes) {
  Device device;
  for (const Dtype from : AllDtypes()) {
    const Tensor x = Vector(from, Values(from));
    for (const Dtype to : AllDtypes()) {
      const TensorType type{to, x.view.shape};
      ExpectSame(device.Run(Op::kCast, {In(x)}, type, from), OnCpu(Op::kCast, {In(x)}, type, from),
                 StrCat(DtypeName(from), " to ", DtypeName(to)));
    }
  }
}

TEST(CudaCast, EveryShortReal) {
  Device device;
  for (const Dtype from : {Dtype::kFloat16, Dtype::kBfloat16}) {
    Tensor x(from, {65536});
    for (int64_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(x.memory.data() + 2 * i, &bits, 2);
    }
    for (const Dtype to : AllDtypes()) {
      const TensorType type{to, x.view.shape};
      ExpectSame(device.Run(Op::kCast, {In(x)}, type, from), OnCpu(Op::kCast, {In(x)}, type, from),
                 StrCat(DtypeName(from), " to ", DtypeName(to)));
    }
    // The same dtype is moved, NaN's digits with it.
    EXPECT_EQ(device.Run(Op::kCast, {In(x)}, x.view.type(), from).memory, x.memory);
  }
}

TEST(CudaCast, IntegersOfOneWidthAreMoved) {
  Device device;
  const Tensor x = Vector(Dtype::kInt32, Edges(Dtype::kInt32));
  EXPECT_EQ(device.Run(Op::kCast, {In(x)}, {Dtype::kUint32, x.view.shape}, Dtype::kInt32).memory, x.memory);
}

}  // namespace
}  // namespace tensord::testing
