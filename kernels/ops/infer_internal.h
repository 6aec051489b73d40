// What the files of infer_*.cc share: one function a family, and the refusals that they all give. Not for others.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/core/error.h"
#include "kernels/ops/infer.h"

namespace tensord::infer_internal {

// One instruction under inference. Arity, attribute family and complex dtypes have been checked.
struct Call {
  const OpRow& row;
  const Instruction& instruction;
  absl::Span<const OperandType> operands;

  // The attributes, or the family's defaults.
  template <class T>
  const T& attributes() const {
    return AttributesAs<T>(instruction.attributes);
  }
  // An optional operand is there.
  bool has(size_t i) const { return i < operands.size() && !operands[i].absent(); }
};

// ---- families, one file each
absl::StatusOr<Inference> InferCreate(const Call& call);
absl::StatusOr<Inference> InferConstant(const Call& call);
absl::StatusOr<Inference> InferUnary(const Call& call);
absl::StatusOr<Inference> InferBinary(const Call& call);  // and Compare
absl::StatusOr<Inference> InferSelect(const Call& call);
absl::StatusOr<Inference> InferConvert(const Call& call);
absl::StatusOr<Inference> InferReduce(const Call& call);
absl::StatusOr<Inference> InferSoftmax(const Call& call);
absl::StatusOr<Inference> InferMatmul(const Call& call);
absl::StatusOr<Inference> InferView(const Call& call);
absl::StatusOr<Inference> InferJoin(const Call& call);
absl::StatusOr<Inference> InferIndex(const Call& call);
absl::StatusOr<Inference> InferWindow(const Call& call);
absl::StatusOr<Inference> InferNorm(const Call& call);

// ---- dtypes (promote.cc)

// The dtype that the operands are brought to: tensors and scalars with a dtype promote, weak scalars follow and must
// fit.
absl::StatusOr<Dtype> PromoteOperands(const Call& call, absl::Span<const OperandType> operands);
// The result's dtype for an op that computes in `compute`, or the refusal of the row's type rule.
absl::StatusOr<Dtype> ApplyTypeRule(const OpRow& row, Dtype compute);

// ---- shapes (infer.cc)

// The shape of an operand: empty for a scalar.
const Dims& ShapeOf(const OperandType& operand);

// A result that passes CheckedBytes. Errors: SHAPE_INVALID, LIMIT_EXCEEDED.
absl::Status CheckResult(const OpRow& row, Dtype dtype, absl::Span<const int64_t> shape);
// An inference with one result, its size checked.
absl::StatusOr<Inference> OneResult(const OpRow& row, Dtype dtype, Dims shape, Dtype compute);
// The operand as a tensor. Error: ARITY_INVALID for a scalar.
absl::StatusOr<const TensorType*> NeedTensor(const Call& call, size_t i);
// One axis, normalised. Error: AXIS_INVALID; `field` names it.
absl::StatusOr<int> NormalizeAxis(const OpRow& row, int64_t axis, int rank, std::string_view field);

// A slice along one axis: `count` elements from `start` on. start is in range where count > 0.
struct SliceRange {
  int64_t start = 0;
  int64_t count = 0;
};
// Python's rules for start:stop:step on an axis of `size`; step is not 0.
SliceRange ResolveSlice(int64_t start, int64_t stop, int64_t step, int64_t size);

// ---- refusals

// A refusal with metadata "op".
inline Error Refuse(Reason reason, const OpRow& row) { return Error(reason).With("op", row.name); }
// "reduce.axes".
std::string FieldPath(const OpRow& row, std::string_view field);
absl::Status AttributeInvalid(const OpRow& row, std::string_view field, std::string_view value,
                              std::string_view allowed);
// Refuses a field that is set though the op does not use it. `is_set` is false for the field's default.
absl::Status CheckUnused(const OpRow& row, std::string_view field, bool is_set);
absl::Status ShapeMismatch(const OpRow& row, std::string_view shapes, int64_t axis, std::string_view why);
// The name of operand i, "x1".
std::string_view OperandName(const OpRow& row, size_t i);

}  // namespace tensord::infer_internal
