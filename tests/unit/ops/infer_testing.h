// Asking inference in one line: operands as text or numbers, the answer as text.
//
//   EXPECT_EQ(Ask("add", {"float32[2,3]", 1.5}), "float32[2,3]");
//   EXPECT_EQ(Ask("add", {"float32[2]", "float32[3]"}), "SHAPE_MISMATCH");
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/ops/infer.h"

namespace tensord {

// "float32[2,3]".
inline TensorType ParseType(std::string_view text) {
  const size_t open = text.find('[');
  TensorType type;
  type.dtype = ParseDtype(text.substr(0, open)).value_or(Dtype::kNone);
  EXPECT_NE(type.dtype, Dtype::kNone) << text;
  std::string number;
  for (const char c : text.substr(open + 1)) {
    if (c == ',' || c == ']') {
      if (!number.empty()) type.shape.push_back(std::stoll(number));
      number.clear();
    } else {
      number.push_back(c);
    }
  }
  return type;
}

// A tensor by its type's text, "-" for one left out, or a scalar.
struct Operand {
  Operand(const char* text) {  // NOLINT(google-explicit-constructor)
    if (std::string_view(text) != "-") tensor = ParseType(text);
  }
  Operand(TensorType type) : tensor(std::move(type)) {}  // NOLINT(google-explicit-constructor)
  Operand(bool value) : scalar{value} {}                 // NOLINT(google-explicit-constructor)
  Operand(int value) : scalar{int64_t{value}} {}         // NOLINT(google-explicit-constructor)
  Operand(int64_t value) : scalar{value} {}              // NOLINT(google-explicit-constructor)
  Operand(uint64_t value) : scalar{value} {}             // NOLINT(google-explicit-constructor)
  Operand(double value) : scalar{value} {}               // NOLINT(google-explicit-constructor)
  Operand(Scalar value) : scalar(std::move(value)) {}    // NOLINT(google-explicit-constructor)

  std::optional<TensorType> tensor;
  Scalar scalar;
};

inline absl::StatusOr<Inference> InferOp(std::string_view op, const std::vector<Operand>& operands,
                                         const Attributes& attributes = {}) {
  Instruction instruction;
  instruction.op = FindOp(op);
  EXPECT_NE(instruction.op, Op::kNone) << op;
  instruction.output = 100;
  instruction.attributes = attributes;
  std::vector<OperandType> types;
  for (const Operand& operand : operands) {
    if (operand.tensor) {
      instruction.inputs.push_back(instruction.inputs.size() + 1);
      types.push_back({.tensor = &*operand.tensor});
    } else {
      instruction.inputs.push_back(0);
      instruction.scalars.push_back(operand.scalar);
      types.push_back({.scalar = &operand.scalar});
    }
  }
  absl::StatusOr<Inference> inference = Infer(instruction, types);
  if (!inference.ok()) {
    // Every refusal names the op.
    EXPECT_EQ(DetailsOf(inference.status()).Get("op"), op) << inference.status();
    EXPECT_EQ(std::string(inference.status().message()).find('?'), std::string::npos) << inference.status();
  }
  return inference;
}

// The result's type, or the refusal's reason.
inline std::string Ask(std::string_view op, const std::vector<Operand>& operands, const Attributes& attributes = {}) {
  const absl::StatusOr<Inference> inference = InferOp(op, operands, attributes);
  if (!inference.ok()) return std::string(DetailsOf(inference.status()).reason_name);
  EXPECT_EQ(inference->outputs.size(), 1u);
  return inference->outputs[0].ToString();
}

// The dtype the loop runs in.
inline std::string Compute(std::string_view op, const std::vector<Operand>& operands,
                           const Attributes& attributes = {}) {
  const absl::StatusOr<Inference> inference = InferOp(op, operands, attributes);
  if (!inference.ok()) return std::string(DetailsOf(inference.status()).reason_name);
  return std::string(DtypeName(inference->compute));
}

// The refusal's message.
inline std::string Message(std::string_view op, const std::vector<Operand>& operands,
                           const Attributes& attributes = {}) {
  return std::string(InferOp(op, operands, attributes).status().message());
}

// The path of the field at fault, or "".
inline std::string Path(std::string_view op, const std::vector<Operand>& operands, const Attributes& attributes = {}) {
  const ErrorDetails details = DetailsOf(InferOp(op, operands, attributes).status());
  return details.fields.empty() ? "" : details.fields[0].first;
}

// The axis that a SHAPE_MISMATCH names.
inline std::string MismatchAxis(std::string_view op, const std::vector<Operand>& operands,
                                const Attributes& attributes = {}) {
  const ErrorDetails details = DetailsOf(InferOp(op, operands, attributes).status());
  return details.reason == Reason::kShapeMismatch ? std::string(details.Get("axis")) : details.reason_name;
}

// Attributes in one expression: With<ReduceAttributes>([](auto& a) { a.keepdims = true; }).
template <class T, class F>
T With(F&& fill) {
  T attributes;
  fill(attributes);
  return attributes;
}

}  // namespace tensord
