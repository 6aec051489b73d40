// Element by element: Unary, Binary, Compare, Select and Convert.
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// All operands broadcast to one shape, left to right.
absl::StatusOr<Dims> BroadcastAll(const OpRow& row, absl::Span<const OperandType> operands) {
  Dims shape;
  bool first = true;
  for (const OperandType& operand : operands) {
    if (operand.absent()) continue;
    const Dims& next = ShapeOf(operand);
    if (first) {
      shape = next;
      first = false;
    } else if (next != shape && !next.empty()) {
      TENSORD_ASSIGN_OR_RETURN(shape, Broadcast(row.name, shape, next));
    }
  }
  return shape;
}

}  // namespace

absl::StatusOr<Inference> InferUnary(const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(call.row, compute));
  return OneResult(call.row, result, ShapeOf(call.operands[0]), compute);
}

absl::StatusOr<Inference> InferBinary(const Call& call) {
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(call.row, compute));
  TENSORD_ASSIGN_OR_RETURN(Dims shape, BroadcastAll(call.row, call.operands));
  return OneResult(call.row, result, std::move(shape), compute);
}

absl::StatusOr<Inference> InferSelect(const Call& call) {
  absl::Span<const OperandType> values = call.operands;
  if (call.row.op == Op::kWhere) {
    const OperandType& condition = values[0];
    const Dtype dtype = condition.tensor ? condition.tensor->dtype : condition.scalar->dtype;
    const bool truth = dtype == Dtype::kBool ||
                       (dtype == Dtype::kNone && condition.scalar && condition.scalar->kind() == DtypeKind::kBool);
    if (!truth) {
      const std::string got = dtype == Dtype::kNone ? condition.scalar->ToString() : std::string(DtypeName(dtype));
      return Refuse(Reason::kDtypeMismatch, call.row)
          .With("dtypes", got)
          .Say("why", "the condition is bool; compare, or cast it to bool first");
    }
    values.remove_prefix(1);
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, values));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(call.row, compute));
  TENSORD_ASSIGN_OR_RETURN(Dims shape, BroadcastAll(call.row, call.operands));
  return OneResult(call.row, result, std::move(shape), compute);
}

absl::StatusOr<Inference> InferConvert(const Call& call) {
  const auto& attributes = call.attributes<ConvertAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "dtype", attributes.dtype != Dtype::kNone));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "device", !attributes.device.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "copy", attributes.copy));
  if (call.row.op == Op::kTo) {
    if (attributes.device.empty()) {
      return AttributeInvalid(call.row, "device", "empty", "a device, as cpu or cuda:0");
    }
    TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
    return OneResult(call.row, x->dtype, x->shape, Dtype::kNone);
  }
  if (!IsValid(attributes.dtype)) {
    return Refuse(Reason::kDtypeUnknown, call.row)
        .With("value", DtypeName(attributes.dtype))
        .With("known", KnownDtypes())
        .At(FieldPath(call.row, "dtype"));
  }
  if (IsComplex(attributes.dtype)) {
    return Refuse(Reason::kOpUnsupported, call.row)
        .With("dtype", DtypeName(attributes.dtype))
        .With("device", "any device")
        .With("supported", KnownDtypes());
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  return OneResult(call.row, attributes.dtype, ShapeOf(call.operands[0]), compute);
}

}  // namespace tensord::infer_internal
