// What can be said of programs before they run.
#include "kernels/ops/program.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/ops/program_infer.h"

namespace tensord {
namespace {

Instruction Apply(Op op, std::vector<uint64_t> inputs, uint64_t output) {
  Instruction instruction;
  instruction.op = op;
  instruction.inputs.assign(inputs.begin(), inputs.end());
  instruction.output = output;
  return instruction;
}

ProgramValue Value(std::string name, uint64_t id) {
  ProgramValue value;
  value.name = std::move(name);
  value.id = id;
  return value;
}

// y = relu(a + b)
Program Example() {
  Program program;
  program.inputs = {Value("a", 1), Value("b", 2)};
  program.instructions = {Apply(Op::kAdd, {1, 2}, 3), Apply(Op::kRelu, {3}, 4)};
  program.outputs = {Value("y", 4)};
  return program;
}

struct Refusal {
  Reason reason;
  std::string path;
  bool operator==(const Refusal&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Refusal& r) {
  return out << RowOf(r.reason).name << " at " << r.path;
}

Refusal Check(const Program& program, uint32_t max_instructions = 100) {
  const absl::Status status = CheckProgram(program, max_instructions);
  const ErrorDetails details = DetailsOf(status);
  return {details.reason, details.fields.empty() ? "" : details.fields[0].first};
}

TEST(CheckProgram, Accepts) {
  EXPECT_TRUE(CheckProgram(Example(), 2).ok());
  EXPECT_TRUE(CheckProgram(Program(), 0).ok());
  Program identity;
  identity.inputs = {Value("a", 1)};
  identity.outputs = {Value("x", 1), Value("y", 1)};
  EXPECT_TRUE(CheckProgram(identity, 0).ok());
}

TEST(CheckProgram, Ids) {
  Program p = Example();
  p.instructions[0].inputs[1] = 9;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[0].inputs[1]"}));
  EXPECT_EQ(CheckProgram(p, 9).message(), "program: value 9 is used before it is defined");
  EXPECT_EQ(DetailsOf(CheckProgram(p, 9)).Get("instruction"), "0");
  p = Example();
  p.instructions[0].inputs[1] = 4;  // defined later
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[0].inputs[1]"}));
  p = Example();
  p.instructions[1].inputs[0] = 4;  // itself
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].inputs[0]"}));
  p = Example();
  p.instructions[1].output = 3;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].output"}));
  p = Example();
  p.instructions[1].output = 0;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].output"}));
  p = Example();
  p.inputs[1].id = 1;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "inputs[1].id"}));
  p = Example();
  p.bindings.push_back({.id = 2, .tensor = TensorRef::Id(7)});
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "bindings[0].id"}));
  p = Example();
  p.outputs[0].id = 5;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "outputs[0].id"}));
}

TEST(CheckProgram, Names) {
  Program p = Example();
  p.inputs[1].name = "a";
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "inputs[1].name"}));
  p = Example();
  p.outputs.push_back(Value("y", 3));
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "outputs[1].name"}));
  p = Example();
  p.inputs[0].name = p.inputs[1].name = "";
  EXPECT_TRUE(CheckProgram(p, 9).ok()) << "values may be nameless";
}

TEST(CheckProgram, Frees) {
  Program p = Example();
  p.instructions[1].frees.push_back(3);
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].frees[0]"}));
}

TEST(CheckProgram, Scalars) {
  Program p = Example();
  p.instructions[0].inputs[1] = 0;
  EXPECT_EQ(Check(p), (Refusal{Reason::kArityInvalid, "instructions[0].scalars"}));
  p.instructions[0].scalars.push_back({2.0});
  EXPECT_TRUE(CheckProgram(p, 9).ok());
  p.instructions[0].scalars.push_back({2.0});
  EXPECT_EQ(Check(p), (Refusal{Reason::kArityInvalid, "instructions[0].scalars"}));
}

TEST(CheckProgram, Counts) {
  EXPECT_EQ(Check(Example(), 1), (Refusal{Reason::kLimitExceeded, "instructions"}));
  Program p = Example();
  p.instructions[1].output_count = 2;
  EXPECT_EQ(Check(p), (Refusal{Reason::kArityInvalid, "instructions[1].output_count"}));
  p.instructions[1].op = Op::kCall;
  EXPECT_TRUE(CheckProgram(p, 9).ok());
  p.instructions[1].output_count = 4000000000u;
  EXPECT_EQ(Check(p), (Refusal{Reason::kLimitExceeded, "instructions[1].output_count"}));
  // Numbers that run over the end wrap to 0, which is no number.
  p.instructions[1].output = ~uint64_t{0};
  p.instructions[1].output_count = 2;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].output"}));
}

TEST(CheckProgram, WhatCouldNotBeDecoded) {
  Program p = Example();
  p.instructions[1].invalid = Error(Reason::kOpUnknown).With("name", "rel").With("daemon_version", "0").At("op");
  EXPECT_EQ(Check(p), (Refusal{Reason::kOpUnknown, "instructions[1].op"}));
  p = Example();
  p.instructions[1].op = Op::kNone;
  EXPECT_EQ(Check(p), (Refusal{Reason::kProgramInvalid, "instructions[1].op"}));
}

const TensorType kMatrix{Dtype::kFloat32, {2, 3}};
const TensorType kRow{Dtype::kFloat32, {3}};

TEST(InferProgram, TypesFlow) {
  const absl::StatusOr<ProgramTypes> types = InferProgram(Example(), {&kMatrix, &kRow}, {});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(types->Find(3)->ToString(), "float32[2,3]");
  EXPECT_EQ(types->Find(4)->ToString(), "float32[2,3]");
  EXPECT_EQ(types->Find(5), nullptr);
}

TEST(InferProgram, BindingsAndScalars) {
  Program p;
  p.bindings = {{.id = 7, .tensor = TensorRef::Name("x")}};
  p.instructions = {Apply(Op::kMultiply, {0, 7}, 8)};
  p.instructions[0].scalars = {{2.5}};
  p.outputs = {Value("y", 8)};
  EXPECT_EQ(InferProgram(p, {}, {kRow})->Find(8)->ToString(), "float32[3]");
}

TEST(InferProgram, RefusalsNameTheInstruction) {
  Program p = Example();
  p.instructions[1] = Apply(Op::kSoftmax, {3}, 4);
  p.instructions[1].label = "last";
  const absl::Status status = InferProgram(p, {&kMatrix, &kRow}, {}).status();
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, Reason::kAxisInvalid);
  EXPECT_EQ(details.Get("instruction"), "1");
  EXPECT_EQ(details.Get("label"), "last");
  EXPECT_EQ(details.fields.at(0).first, "instructions[1].reduce.axes");
}

TEST(InferProgram, OptionalInputsMayBeLeftOut) {
  Program p;
  p.inputs = {Value("x", 1), Value("weight", 2), Value("bias", 3)};
  p.inputs[2].optional = true;
  p.instructions = {Apply(Op::kLinear, {1, 2, 3}, 4)};
  p.outputs = {Value("y", 4)};
  const TensorType weight{Dtype::kFloat32, {5, 3}};
  EXPECT_EQ(InferProgram(p, {&kMatrix, &weight, nullptr}, {})->Find(4)->ToString(), "float32[2,5]");
  EXPECT_EQ(InferProgram(p, {&kMatrix, &weight}, {})->Find(4)->ToString(), "float32[2,5]");
  EXPECT_EQ(ReasonOf(InferProgram(p, {&kMatrix, nullptr}, {}).status()), Reason::kArgumentMismatch);
}

TEST(InferProgram, CallsAskTheirCallee) {
  Program p;
  p.inputs = {Value("x", 1)};
  p.instructions = {Apply(Op::kCall, {1}, 2), Apply(Op::kAdd, {2, 3}, 4)};
  p.instructions[0].output_count = 2;
  const auto twice = [](const Instruction&,
                        absl::Span<const OperandType> operands) -> absl::StatusOr<std::vector<TensorType>> {
    return std::vector<TensorType>(2, *operands[0].tensor);
  };
  EXPECT_EQ(InferProgram(p, {&kRow}, {}, twice)->Find(4)->ToString(), "float32[3]");
  EXPECT_EQ(ReasonOf(InferProgram(p, {&kRow}, {}).status()), Reason::kNotOffered);
}

ProgramValue Formal(std::string name, Dtype dtype, std::vector<int64_t> shape, std::vector<std::string> symbols = {}) {
  ProgramValue value = Value(std::move(name), 1);
  value.dtype = dtype;
  value.shape = std::move(shape);
  value.symbols = std::move(symbols);
  return value;
}

TEST(CheckArguments, Signature) {
  const std::vector<ProgramValue> formal = {Formal("x", Dtype::kFloat32, {-1, 3}, {"batch"}),
                                            Formal("y", Dtype::kNone, {-1, ProgramValue::kAnySize}, {"batch"})};
  const TensorType two{Dtype::kInt8, {2, 9}};
  const TensorType three{Dtype::kInt8, {3, 9}};
  const TensorType wide{Dtype::kFloat32, {2, 4}};
  const TensorType flat{Dtype::kFloat32, {3}};
  const TensorType half{Dtype::kFloat16, {2, 3}};
  EXPECT_TRUE(CheckArguments(formal, {&kMatrix, &two}).ok());
  const auto message = [&](std::vector<const TensorType*> inputs) {
    const absl::Status status = CheckArguments(formal, inputs);
    EXPECT_EQ(ReasonOf(status), Reason::kArgumentMismatch);
    return std::string(status.message());
  };
  EXPECT_EQ(message({&kMatrix, &three}),
            "argument y has 3 for batch, which is 2 elsewhere: expected any dtype[batch,any], got int8[3,9]");
  EXPECT_EQ(message({&wide, &two}),
            "argument x has another size at axis 1: expected float32[batch,3], got float32[2,4]");
  EXPECT_EQ(message({&flat, &two}), "argument x has another number of axes: expected float32[batch,3], got float32[3]");
  EXPECT_EQ(message({&half, &two}), "argument x has another dtype: expected float32[batch,3], got float16[2,3]");
  EXPECT_EQ(message({&kMatrix}), "argument y is missing: expected any dtype[batch,any], got nothing");
  EXPECT_EQ(message({&kMatrix, &two, &two}), "argument 2 is one too many: expected 2 inputs, got 3");
}

}  // namespace
}  // namespace tensord
