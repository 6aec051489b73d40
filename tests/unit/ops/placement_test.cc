#include "kernels/ops/placement.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/core/error.h"

namespace tensord {
namespace {

const DeviceId kCpu;
const DeviceId kCuda{DeviceKind::kCuda, 0};

absl::StatusOr<DeviceId> Resolve(std::string_view text) {
  const std::optional<DeviceId> device = DeviceId::Parse(text);
  if (device && (*device == kCpu || *device == kCuda)) return *device;
  return Error(Reason::kDeviceUnknown).With("device", text).With("known", "cpu, cuda:0");
}

absl::StatusOr<DeviceId> PlaceOp(Op op, const std::vector<PlacedOperand>& operands, Attributes attributes = {}) {
  Instruction instruction;
  instruction.op = op;
  instruction.attributes = std::move(attributes);
  return Place(instruction, operands, Resolve);
}

const TensorSpec kOnCpu{{Dtype::kFloat32, {2, 3}}, kCpu};
const TensorSpec kOnCuda{{Dtype::kFloat32, {2, 3}}, kCuda};

TEST(Place, OneDevice) {
  EXPECT_EQ(*PlaceOp(Op::kAdd, {{&kOnCuda, "X"}, {&kOnCuda, "Z"}}), kCuda);
  EXPECT_EQ(*PlaceOp(Op::kAdd, {{nullptr, ""}, {&kOnCuda, ""}}), kCuda) << "a scalar is nowhere";
  EXPECT_EQ(*PlaceOp(Op::kAdd, {{nullptr, ""}, {nullptr, ""}}), kCpu) << "scalars alone are computed on the CPU";
}

TEST(Place, TheTutorialsMessage) {
  const absl::Status status = PlaceOp(Op::kAdd, {{&kOnCuda, "X"}, {&kOnCpu, "Y"}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "add: operand 1 (Y, float32[2,3]) is on cpu, operand 0 (X, float32[2,3]) is on cuda:0; tensors must be on one "
      "device. Move one first: Y.to(\"cuda:0\")");
  const ErrorDetails details = DetailsOf(status);
  EXPECT_EQ(details.reason, Reason::kDeviceMismatch);
  EXPECT_EQ(details.Get("op"), "add");
  EXPECT_EQ(details.Get("operand"), "1");
  EXPECT_EQ(details.Get("devices"), "cuda:0,cpu");
  EXPECT_EQ(details.Get("specs"), "float32[2,3] and float32[2,3]");
  EXPECT_EQ(details.Get("fix"), "to(1, cuda:0)");
}

TEST(Place, OperandsWithoutNames) {
  EXPECT_EQ(PlaceOp(Op::kAdd, {{&kOnCpu, ""}, {&kOnCuda, ""}}).status().message(),
            "add: operand 1 (float32[2,3]) is on cuda:0, operand 0 (float32[2,3]) is on cpu; tensors must be on one "
            "device. Move one first: (operand 1).to(\"cpu\")");
}

TEST(Place, ScalarsAreSkippedInTheNumbering) {
  const absl::Status status = PlaceOp(Op::kWhere, {{nullptr, ""}, {&kOnCpu, "a"}, {&kOnCuda, "b"}}).status();
  EXPECT_EQ(DetailsOf(status).Get("operand"), "2");
  EXPECT_EQ(DetailsOf(status).Get("fix"), "to(2, cpu)");
}

// One rule for every rank: a 0-d tensor is a tensor.
TEST(Place, ZeroDimensionalTensorsAreNoException) {
  const TensorSpec cpu0{{Dtype::kFloat32, {}}, kCpu};
  const TensorSpec cuda0{{Dtype::kFloat32, {}}, kCuda};
  const TensorSpec cpu1{{Dtype::kFloat32, {1}}, kCpu};
  const TensorSpec cuda1{{Dtype::kFloat32, {1}}, kCuda};
  for (const auto& [a, b] : {std::pair(&cpu0, &cuda0), std::pair(&cpu0, &cuda1), std::pair(&cuda0, &cpu1)}) {
    EXPECT_EQ(ReasonOf(PlaceOp(Op::kAdd, {{a, ""}, {b, ""}}).status()), Reason::kDeviceMismatch);
    EXPECT_EQ(ReasonOf(PlaceOp(Op::kAdd, {{b, ""}, {a, ""}}).status()), Reason::kDeviceMismatch);
  }
}

TEST(Place, ParametersAgainstTheInput) {
  EXPECT_EQ(ReasonOf(PlaceOp(Op::kLinear, {{&kOnCuda, "X"}, {&kOnCpu, "0.weight"}, {&kOnCpu, "0.bias"}}).status()),
            Reason::kDeviceMismatch);
  EXPECT_EQ(ReasonOf(PlaceOp(Op::kCall, {{&kOnCuda, ""}, {&kOnCpu, ""}}).status()), Reason::kDeviceMismatch);
}

TEST(Place, OpsThatNameTheirDevice) {
  CreateAttributes create;
  create.spec.device = "cuda";
  EXPECT_EQ(*PlaceOp(Op::kOnes, {}, create), kCuda);
  EXPECT_EQ(*PlaceOp(Op::kOnes, {}), kCpu);
  create.spec.device = "cuda:7";
  const absl::Status status = PlaceOp(Op::kOnes, {}, create).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "no device cuda:7; there are cpu, cuda:0");
  ConstantAttributes constant;
  constant.spec.device = "cuda:0";
  EXPECT_EQ(*PlaceOp(Op::kConstant, {}, constant), kCuda);
  ConvertAttributes to;
  to.device = "cpu";
  EXPECT_EQ(*PlaceOp(Op::kTo, {{&kOnCuda, ""}}, to), kCpu) << "moving is what mends a mismatch";
  ConvertAttributes cast;
  cast.dtype = Dtype::kInt8;
  EXPECT_EQ(*PlaceOp(Op::kCast, {{&kOnCuda, ""}}, cast), kCuda);
}

TEST(Place, LongLabelsAreCutBetweenCharacters) {
  std::string label(63, 'x');
  for (int i = 0; i < 100; ++i) label += "\xc3\xa9";  // é
  const std::string message(PlaceOp(Op::kAdd, {{&kOnCuda, ""}, {&kOnCpu, label}}).status().message());
  EXPECT_NE(message.find("(" + std::string(63, 'x') + "…, float32[2,3])"), std::string::npos) << message;
}

}  // namespace
}  // namespace tensord
