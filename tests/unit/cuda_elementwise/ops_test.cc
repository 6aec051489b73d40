// Every row of the elementwise families, for every dtype it takes, over edge values and random bits: against the
// reference, and to the bit against the CPU where IEEE 754 or integer arithmetic leaves no choice.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "kernels/core/error.h"
#include "tests/unit/cpu_elementwise/reference.h"
#include "tests/unit/cuda_elementwise/device.h"

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

// The operands of a row: all pairs of edges (edges alone for one operand), and random ones.
struct Operands {
  std::vector<Number> a, b;
};
Operands OperandsFor(Op op, Dtype dtype) {
  Operands operands;
  const std::vector<Number> edges = Edges(dtype);
  if (RowOf(op).family == Family::kUnary) {
    operands.a = operands.b = edges;
  } else {
    for (const Number& x : edges) {
      for (const Number& y : edges) {
        operands.a.push_back(x);
        operands.b.push_back(y);
      }
    }
  }
  for (const Number& n : Randoms(dtype, 1500, 7)) operands.a.push_back(n);
  for (const Number& n : Randoms(dtype, 1500, 13)) operands.b.push_back(n);
  return operands;
}

Tensor RunRow(Device& device, Op op, Dtype dtype, const Operands& operands) {
  const Tensor x = Vector(dtype, operands.a);
  const Tensor y = Vector(dtype, operands.b);
  std::vector<KernelOperand> inputs = {In(x)};
  if (RowOf(op).family != Family::kUnary) inputs.push_back(In(y));
  return device.Run(op, inputs, {MakesBool(op) ? Dtype::kBool : dtype, x.view.shape}, dtype);
}

TEST(CudaElementwise, EveryRowAgreesWithItsReference) {
  Device device;
  for (const Op op : Rows({Family::kUnary, Family::kBinary, Family::kCompare})) {
    for (const Dtype dtype : AllDtypes()) {
      if (!Takes(op, dtype)) continue;
      const Operands operands = OperandsFor(op, dtype);
      const Tensor got = RunRow(device, op, dtype, operands);
      int wrong = 0;
      for (size_t i = 0; i < operands.a.size() && wrong < 3; ++i) {
        const Expected expected = Reference(op, dtype, operands.a[i], operands.b[i]);
        const Number value = got.At(static_cast<int64_t>(i));
        if (Agrees(got.view.dtype, value, expected)) continue;
        ++wrong;
        ADD_FAILURE() << RowOf(op).name << " " << DtypeName(dtype) << " (" << Text(dtype, operands.a[i]) << ", "
                      << Text(dtype, operands.b[i]) << ") = " << Text(got.view.dtype, value) << ", expected "
                      << Text(got.view.dtype, expected.exact);
      }
    }
  }
}

TEST(CudaElementwise, ExactRowsEqualTheCpuToTheBit) {
  Device device;
  int rows = 0;
  for (const Op op : Rows({Family::kUnary, Family::kBinary, Family::kCompare})) {
    for (const Dtype dtype : AllDtypes()) {
      if (!Takes(op, dtype)) continue;
      const Operands operands = OperandsFor(op, dtype);
      const bool exact = Reference(op, dtype, operands.a[1], operands.b[1]).ulps == 0;
      if (!exact) continue;
      ++rows;
      const Tensor got = RunRow(device, op, dtype, operands);
      const Tensor x = Vector(dtype, operands.a);
      const Tensor y = Vector(dtype, operands.b);
      std::vector<KernelOperand> inputs = {In(x)};
      if (RowOf(op).family != Family::kUnary) inputs.push_back(In(y));
      const Tensor want = OnCpu(op, inputs, got.view.type(), dtype);
      ExpectSame(got, want, StrCat(RowOf(op).name, " ", DtypeName(dtype)));
    }
  }
  EXPECT_GT(rows, 300);
}

TEST(CudaElementwise, TheOrderOfThreadsChangesNothing) {
  const std::vector<Dtype> dtypes = {Dtype::kBool,     Dtype::kInt16,   Dtype::kUint32, Dtype::kUint64,
                                     Dtype::kBfloat16, Dtype::kFloat32, Dtype::kFloat64};
  std::vector<std::vector<std::byte>> first;
  for (const Device::Options& options : AllOrders()) {
    Device device(options);
    size_t at = 0;
    for (const Op op : {Op::kLogicalNot, Op::kNegative, Op::kExp, Op::kAdd, Op::kFloorDivide, Op::kLess}) {
      for (const Dtype dtype : dtypes) {
        if (!Takes(op, dtype)) continue;
        const Tensor got = RunRow(device, op, dtype, OperandsFor(op, dtype));
        if (at == first.size()) first.push_back(got.memory);
        EXPECT_EQ(got.memory, first[at]) << RowOf(op).name << " " << DtypeName(dtype);
        ++at;
      }
    }
  }
}

TEST(CudaElementwise, EdgesAtEverySize) {
  for (const int64_t shift : {0, 1, 3}) {
    Device::Options options;
    options.shift = shift;
    options.multiprocessors = 1;  // so that threads loop
    Device device(options);
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 31, 32, 33, 1023, 1025, 4097, 70001}) {
      for (const Dtype dtype : {Dtype::kInt8, Dtype::kFloat16, Dtype::kFloat32, Dtype::kFloat64}) {
        Tensor x(dtype, {n});
        Tensor y(dtype, {n});
        for (int64_t i = 0; i < n; ++i) {
          x.Set(i, Number::Of(i % 101));
          y.Set(i, Number::Of(i % 7));
        }
        const Tensor got = device.Run(Op::kSubtract, {In(x), In(y)}, x.view.type(), dtype);
        ExpectSame(got, OnCpu(Op::kSubtract, {In(x), In(y)}, x.view.type(), dtype), StrCat(DtypeName(dtype), " ", n));
      }
    }
  }
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

TEST(CudaElementwise, PromotedOperandsAreConvertedOnTheWay) {
  Device device;
  const Tensor large = Integers(Dtype::kInt32, {1, -2, 16777217});
  const Tensor real = Reals(Dtype::kFloat32, {0.5, 0.25, 0});
  ExpectSame(device.Run(Op::kAdd, {In(large), In(real)}, real.view.type(), Dtype::kFloat32),
             Reals(Dtype::kFloat32, {1.5, -1.75, 16777216}), "int32 and float32");
  // An integer beside float16 is rounded to float16 first.
  const Tensor odd = Integers(Dtype::kInt32, {2049});
  const Tensor half = Reals(Dtype::kFloat16, {-2048});
  ExpectSame(device.Run(Op::kAdd, {In(odd), In(half)}, half.view.type(), Dtype::kFloat16), Reals(Dtype::kFloat16, {0}),
             "int32 and float16");
  const Tensor u = Integers(Dtype::kUint8, {200});
  const Tensor s = Integers(Dtype::kInt8, {-100});
  ExpectSame(device.Run(Op::kAdd, {In(u), In(s)}, {Dtype::kInt16, {1}}, Dtype::kInt16), Integers(Dtype::kInt16, {100}),
             "uint8 and int8");
  // Every pair, against the CPU.
  for (const Dtype from : AllDtypes()) {
    const Tensor x = Vector(from, Edges(from));
    for (const Dtype dtype : AllDtypes()) {
      if (dtype == Dtype::kBool) continue;
      const Tensor y = Vector(dtype, std::vector<Number>(1, Edges(dtype)[2]));
      ExpectSame(device.Run(Op::kMaximum, {In(x), In(y)}, {dtype, x.view.shape}, dtype),
                 OnCpu(Op::kMaximum, {In(x), In(y)}, {dtype, x.view.shape}, dtype),
                 StrCat(DtypeName(from), " as ", DtypeName(dtype)));
    }
  }
}

TEST(CudaElementwise, LiteralsTakeEitherPlace) {
  Device device;
  const Tensor x = Reals(Dtype::kFloat16, {1, 2, 3});
  const Scalar two{2.0, Dtype::kNone};
  ExpectSame(device.Run(Op::kSubtract, {In(x), In(two)}, x.view.type(), Dtype::kFloat16),
             Reals(Dtype::kFloat16, {-1, 0, 1}), "right");
  ExpectSame(device.Run(Op::kSubtract, {In(two), In(x)}, x.view.type(), Dtype::kFloat16),
             Reals(Dtype::kFloat16, {1, 0, -1}), "left");
  const Scalar large{uint64_t{1} << 63, Dtype::kNone};
  const Tensor u = Integers(Dtype::kUint64, {1});
  EXPECT_EQ(
      static_cast<uint64_t>(device.Run(Op::kAdd, {In(u), In(large)}, u.view.type(), Dtype::kUint64).At(0).integer),
      (uint64_t{1} << 63) + 1);
  const Scalar beyond{int64_t{300}, Dtype::kNone};
  const Tensor small = Integers(Dtype::kInt8, {1});
  Tensor out(Dtype::kInt8, {1});
  const absl::Status refused = device.TryRun(Op::kAdd, {In(small), In(beyond)}, Dtype::kInt8, {}, out);
  EXPECT_EQ(ReasonOf(refused), Reason::kScalarRange) << refused;
  const Scalar truth{true, Dtype::kNone};
  ExpectSame(device.Run(Op::kCast, {In(truth)}, {Dtype::kFloat64, {3}}, Dtype::kNone),
             Reals(Dtype::kFloat64, {1, 1, 1}), "cast of a literal");
}

TEST(CudaElementwise, BoolsOtherThanOneAreTrue) {
  Device device;
  Tensor a(Dtype::kBool, {3});
  Tensor b(Dtype::kBool, {3});
  a.memory = {std::byte{2}, std::byte{1}, std::byte{0}};
  b.memory = {std::byte{1}, std::byte{255}, std::byte{0}};
  a.view.data = a.memory.data();
  b.view.data = b.memory.data();
  const TensorType type{Dtype::kBool, {3}};
  ExpectSame(device.Run(Op::kEqual, {In(a), In(b)}, type, Dtype::kBool), Integers(Dtype::kBool, {1, 1, 1}), "equal");
  ExpectSame(device.Run(Op::kBitwiseAnd, {In(a), In(b)}, type, Dtype::kBool), Integers(Dtype::kBool, {1, 1, 0}), "and");
  const Tensor inverted = device.Run(Op::kBitwiseInvert, {In(a)}, type, Dtype::kBool);
  EXPECT_EQ(inverted.memory, (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{1}}));
  ExpectSame(device.Run(Op::kCast, {In(a)}, {Dtype::kInt64, {3}}, Dtype::kBool), Integers(Dtype::kInt64, {1, 1, 0}),
             "cast");
}

TEST(CudaElementwise, WhereMovesBits) {
  Device device;
  for (const Dtype dtype : AllDtypes()) {
    std::mt19937_64 generator(5);
    Tensor a(dtype, {501});
    Tensor b(dtype, {501});
    Tensor condition(Dtype::kBool, {501});
    for (Tensor* t : {&a, &b}) {
      for (std::byte& byte : t->memory) byte = static_cast<std::byte>(generator());
    }
    for (int64_t i = 0; i < 501; ++i) condition.memory[static_cast<size_t>(i)] = static_cast<std::byte>(i % 3);
    const Tensor got = device.Run(Op::kWhere, {In(condition), In(a), In(b)}, a.view.type(), dtype);
    const size_t item = ItemSize(dtype);
    for (size_t i = 0; i < 501; ++i) {
      const Tensor& from = i % 3 != 0 ? a : b;
      ASSERT_EQ(std::memcmp(got.memory.data() + i * item, from.memory.data() + i * item, item), 0)
          << DtypeName(dtype) << " " << i;
    }
  }
  // Operands of other dtypes and literals are converted.
  const Tensor condition = Integers(Dtype::kBool, {1, 0});
  const Tensor x = Integers(Dtype::kInt64, {3, 4});
  const Scalar half{0.5, Dtype::kNone};
  ExpectSame(device.Run(Op::kWhere, {In(condition), In(x), In(half)}, {Dtype::kFloat32, {2}}, Dtype::kFloat32),
             Reals(Dtype::kFloat32, {3, 0.5}), "where");
  const Tensor h = Reals(Dtype::kFloat16, {7, 8});
  ExpectSame(device.Run(Op::kWhere, {In(condition), In(half), In(h)}, {Dtype::kFloat16, {2}}, Dtype::kFloat16),
             Reals(Dtype::kFloat16, {0.5, 8}), "where");
}

TEST(CudaElementwise, ClipWithBoundsLeftOut) {
  Device device;
  const Scalar absent;
  for (const Dtype dtype : AllDtypes()) {
    if (dtype == Dtype::kBool) continue;
    const Tensor x = Vector(dtype, Edges(dtype));
    const Scalar one{int64_t{1}, Dtype::kNone};
    const Tensor five = Vector(dtype, {IsReal(dtype) ? Number::Real(5) : Number::Of(5)});
    const std::vector<std::vector<KernelOperand>> calls = {{In(x)},
                                                           {In(x), In(absent), In(absent)},
                                                           {In(x), In(one)},
                                                           {In(x), In(absent), In(five)},
                                                           {In(x), In(one), In(five)},
                                                           {In(x), In(five), In(one)}};
    for (const auto& inputs : calls) {
      ExpectSame(device.Run(Op::kClip, inputs, x.view.type(), dtype), OnCpu(Op::kClip, inputs, x.view.type(), dtype),
                 StrCat("clip ", DtypeName(dtype)));
    }
  }
}

TEST(CudaElementwise, NaNsSignBitIsSeenAndKept) {
  Device device;
  const float values[3] = {std::copysign(std::nanf(""), -1.0F), std::copysign(std::nanf(""), 1.0F), -0.0F};
  Tensor x(Dtype::kFloat32, {3});
  std::memcpy(x.memory.data(), values, sizeof(values));
  const Tensor got = device.Run(Op::kSignbit, {In(x)}, {Dtype::kBool, {3}}, Dtype::kFloat32);
  EXPECT_EQ(got.At(0).integer, 1);
  EXPECT_EQ(got.At(1).integer, 0);
  EXPECT_EQ(got.At(2).integer, 1);
  EXPECT_EQ(device.Run(Op::kPositive, {In(x)}, x.view.type(), Dtype::kFloat32).memory, x.memory);
}

TEST(CudaElementwise, WhatHasNoKernelIsRefused) {
  Device device;
  const Tensor complex(Dtype::kComplex64, {2});
  const Tensor integers = Integers(Dtype::kInt32, {1, 2});
  for (const auto& [op, operand] :
       {std::pair<Op, const Tensor*>{Op::kExp, &complex}, {Op::kCast, &complex}, {Op::kExp, &integers}}) {
    Tensor out(operand->view.dtype, {2});
    const absl::Status status = device.TryRun(op, {In(*operand)}, operand->view.dtype, {}, out);
    EXPECT_EQ(ReasonOf(status), Reason::kOpUnsupported) << status;
    EXPECT_EQ(DetailsOf(status).Get("device"), "cuda:0");
  }
}

}  // namespace
}  // namespace tensord::testing
