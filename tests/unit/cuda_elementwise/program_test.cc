// Programs of many instructions: the same bits as the instructions one by one.
#include "kernels/cuda/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "kernels/core/error.h"
#include "tests/unit/cuda_elementwise/device.h"

namespace tensord::testing {
namespace {

using cuda::ClassOf;
using cuda::ProgramBuilder;
using Value = ProgramBuilder::Value;

Tensor Numbers(Dtype dtype, int64_t n, uint64_t seed) {
  std::mt19937_64 generator(seed);
  Tensor t(dtype, {n});
  for (int64_t i = 0; i < n; ++i) {
    const auto k = static_cast<int64_t>(generator() % 2001) - 1000;
    t.Set(i, IsReal(dtype) ? Number::Real(static_cast<long double>(k) / 64) : Number::Of(k));
  }
  return t;
}

// What a random program may do to values of a dtype, exactly.
std::vector<Op> OpsFor(Dtype dtype) {
  std::vector<Op> ops = {Op::kAdd, Op::kSubtract, Op::kMultiply, Op::kMaximum, Op::kMinimum,  Op::kNegative,
                         Op::kAbs, Op::kRelu,     Op::kSign,     Op::kSquare,  Op::kRemainder};
  if (IsReal(dtype)) {
    ops.insert(ops.end(), {Op::kDivide, Op::kFloor, Op::kSqrt, Op::kReciprocal});
  } else {
    ops.insert(ops.end(), {Op::kBitwiseXor, Op::kBitwiseLeftShift, Op::kBitwiseInvert});
  }
  return ops;
}
bool IsBinary(Op op) { return RowOf(op).family == Family::kBinary; }

// A program of `count` random instructions on the device; instruction by instruction on the CPU.
void ExpectRandomProgram(Device& device, Dtype dtype, int count, int outputs, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const int64_t n = 261;
  std::vector<Tensor> values;  // on the host: the inputs, then results
  ProgramBuilder program({n}, ClassOf(dtype));
  std::vector<Value> names;
  for (uint64_t i = 0; i < 3; ++i) {
    values.push_back(Numbers(dtype, n, seed * 10 + i));
    names.push_back(program.AddTensor(device.Upload(values.back().view), dtype));
  }
  const std::vector<Op> ops = OpsFor(dtype);
  for (int k = 0; k < count; ++k) {
    const Op op = ops[generator() % ops.size()];
    // Mostly of what was made last, so that registers suffice.
    const auto pick = [&] {
      const size_t recent = std::min<size_t>(values.size(), 5);
      return values.size() - 1 - generator() % recent;
    };
    const size_t a = pick();
    const size_t b = pick();
    if (IsBinary(op)) {
      names.push_back(program.Apply(op, dtype, {names[a], names[b]}));
      values.push_back(OnCpu(op, {In(values[a]), In(values[b])}, {dtype, {n}}, dtype));
    } else {
      names.push_back(program.Apply(op, dtype, {names[a]}));
      values.push_back(OnCpu(op, {In(values[a])}, {dtype, {n}}, dtype));
    }
  }
  std::vector<std::pair<TensorView, size_t>> results;
  for (int o = 0; o < outputs; ++o) {
    const size_t which = values.size() - 1 - static_cast<size_t>(o);
    results.emplace_back(device.Allocate({dtype, {n}}), which);
    program.AddOutput(names[which], results.back().first);
  }
  const absl::Status status = program.Launch(device.context());
  ASSERT_TRUE(status.ok()) << status;
  for (const auto& [view, which] : results)
    ExpectSame(device.Download(view), values[which], StrCat(DtypeName(dtype), " program ", seed, " value ", which));
  device.Free();
}

TEST(CudaProgram, RandomOnesAreTheirInstructions) {
  for (const Device::Options& options : AllOrders()) {
    Device device(options);
    for (const Dtype dtype : AllDtypes()) {
      if (dtype == Dtype::kBool) continue;
      for (uint64_t seed = 1; seed <= 12; ++seed) {
        ExpectRandomProgram(device, dtype, 1 + static_cast<int>(seed * 5 % 29), 1 + static_cast<int>(seed % 3), seed);
      }
    }
  }
}

TEST(CudaProgram, ComparesSelectsAndCasts) {
  Device device;
  const Tensor x = Numbers(Dtype::kFloat32, 100, 1);
  const Tensor y = Numbers(Dtype::kFloat16, 100, 2);
  ProgramBuilder program({100}, ClassOf(Dtype::kFloat32));
  const Value a = program.AddTensor(device.Upload(x.view), Dtype::kFloat32);
  const Value b = program.AddTensor(device.Upload(y.view), Dtype::kFloat16);
  const Value less = program.Apply(Op::kLess, Dtype::kBool, {a, b});
  const Value third = program.AddConstant(0x3eaaaaab, Dtype::kFloat32, Dtype::kFloat32);
  const Value sum = program.Apply(Op::kAdd, Dtype::kFloat32, {a, third});
  const Value half = program.Apply(Op::kCast, Dtype::kFloat16, {sum});
  const Value chosen = program.Apply(Op::kWhere, Dtype::kFloat16, {less, half, b});
  const TensorView bools = device.Allocate({Dtype::kBool, {100}});
  const TensorView halves = device.Allocate({Dtype::kFloat16, {100}});
  const TensorView floats = device.Allocate({Dtype::kFloat32, {100}});
  const TensorView same = device.Allocate({Dtype::kFloat32, {100}});
  program.AddOutput(less, bools);
  program.AddOutput(chosen, halves);
  program.AddOutput(half, floats);  // rounded to float16, kept as float32
  program.AddOutput(a, same);       // an input as it is
  ASSERT_TRUE(program.Launch(device.context()).ok());
  const Tensor got_bools = device.Download(bools);
  const Tensor got_halves = device.Download(halves);
  const Tensor got_floats = device.Download(floats);
  for (int64_t i = 0; i < 100; ++i) {
    const bool is_less = x.At(i).value < y.At(i).value;
    const auto real_sum = static_cast<float>(x.At(i).value) + 0.333333343F;
    alignas(8) std::byte bytes[8];
    Write(Dtype::kFloat16, Number::Real(real_sum), bytes);
    const long double rounded = Read(Dtype::kFloat16, bytes).value;
    ASSERT_EQ(got_bools.At(i).integer, is_less);
    ASSERT_EQ(got_floats.At(i).value, rounded);
    ASSERT_EQ(got_halves.At(i).value, is_less ? rounded : y.At(i).value);
  }
  EXPECT_EQ(device.Download(same).memory, x.memory);
}

TEST(CudaProgram, InputsOfMixedLayouts) {
  Device device;
  const Tensor x = Numbers(Dtype::kInt32, 200, 1);
  const Tensor row = Numbers(Dtype::kInt8, 20, 2);
  const Tensor one = Numbers(Dtype::kInt64, 1, 3);
  const TensorView matrix{Dtype::kInt32, {10, 20}, {1, 10}, x.view.data};
  ProgramBuilder program({10, 20}, ClassOf(Dtype::kInt32));
  const Value a = program.AddTensor(device.Upload(matrix), Dtype::kInt32);
  const Value b = program.AddTensor(device.Upload(row.view), Dtype::kInt32);
  const Value c = program.AddTensor(device.Upload(one.view), Dtype::kInt32);
  const TensorView out = device.Allocate({Dtype::kInt32, {10, 20}});
  program.AddOutput(program.Apply(Op::kAdd, Dtype::kInt32, {program.Apply(Op::kMultiply, Dtype::kInt32, {a, b}), c}),
                    out);
  ASSERT_TRUE(program.Launch(device.context()).ok());
  const Tensor got = device.Download(out);
  ForEachIndex({10, 20}, [&](const Dims& index, int64_t i) {
    ASSERT_EQ(got.At(i).integer, ElementOf(matrix, index).integer * row.At(index[1]).integer + one.At(0).integer);
  });
}

TEST(CudaProgram, WhatDoesNotFitIsRefused) {
  Device device;
  const TensorView x = device.Upload(Numbers(Dtype::kFloat32, 4, 1).view);
  const TensorView out = device.Allocate(x.type());
  const auto expect_refused = [&](ProgramBuilder& program, const char* what) {
    const absl::Status status = program.Launch(device.context());
    EXPECT_EQ(ReasonOf(status), Reason::kInternal) << status;
    EXPECT_NE(status.message().find(what), absl::string_view::npos) << status;
  };
  {
    ProgramBuilder program({4}, ClassOf(Dtype::kFloat32));
    Value value = program.AddTensor(x, Dtype::kFloat32);
    for (int i = 0; i < cuda::kProgramInstructions - 1; ++i) value = program.Apply(Op::kAbs, Dtype::kFloat32, {value});
    EXPECT_TRUE(program.Fits(0, 1));
    value = program.Apply(Op::kAbs, Dtype::kFloat32, {value});
    EXPECT_FALSE(program.Fits(0, 1));
    program.AddOutput(value, out);
    EXPECT_TRUE(program.Launch(device.context()).ok());
    program.Apply(Op::kAbs, Dtype::kFloat32, {value});
    expect_refused(program, "instructions");
  }
  {
    ProgramBuilder program({4}, ClassOf(Dtype::kFloat32));
    Value value;
    for (int i = 0; i < cuda::kProgramInputs; ++i) value = program.AddTensor(x, Dtype::kFloat32);
    EXPECT_TRUE(program.Fits(0, 1));
    EXPECT_FALSE(program.Fits(1, 1));
    value = program.AddTensor(x, Dtype::kFloat32);
    program.AddOutput(value, out);
    expect_refused(program, "inputs");
  }
  {
    // Nine values that all wait for the end: one too many.
    for (const int count : {cuda::kProgramRegisters, cuda::kProgramRegisters + 1}) {
      ProgramBuilder program({4}, ClassOf(Dtype::kFloat32));
      const Value a = program.AddTensor(x, Dtype::kFloat32);
      std::vector<Value> values;
      for (int i = 0; i < count; ++i) values.push_back(program.Apply(Op::kAbs, Dtype::kFloat32, {a}));
      Value sum = values[0];
      for (size_t i = 1; i < values.size(); ++i) sum = program.Apply(Op::kAdd, Dtype::kFloat32, {sum, values[i]});
      program.AddOutput(sum, out);
      if (count == cuda::kProgramRegisters) {
        EXPECT_TRUE(program.Launch(device.context()).ok());
      } else {
        expect_refused(program, "values");
      }
    }
  }
  {
    ProgramBuilder program({4}, ClassOf(Dtype::kFloat32));
    const Value a = program.AddTensor(x, Dtype::kFloat32);
    for (int i = 0; i < cuda::kProgramOutputs + 1; ++i) program.AddOutput(a, out);
    expect_refused(program, "outputs");
  }
  {
    ProgramBuilder program({4}, ClassOf(Dtype::kFloat32));
    program.AddOutput(program.AddTensor(x, Dtype::kFloat32), device.Allocate({Dtype::kInt64, {4}}));
    expect_refused(program, "int64 is of another class");
  }
}

}  // namespace
}  // namespace tensord::testing
