#include "kernels/ops/infer.h"

#include <algorithm>
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord {
namespace infer_internal {

const Dims& ShapeOf(const OperandType& operand) {
  static const Dims kNoShape;
  return operand.tensor ? operand.tensor->shape : kNoShape;
}

std::string FieldPath(const OpRow& row, std::string_view field) {
  return StrCat(FamilyAttributes(row.family), ".", field);
}

absl::Status AttributeInvalid(const OpRow& row, std::string_view field, std::string_view value,
                              std::string_view allowed) {
  return Refuse(Reason::kAttributeInvalid, row)
      .With("attribute", field)
      .With("value", value)
      .With("allowed", allowed)
      .At(FieldPath(row, field));
}

absl::Status CheckUnused(const OpRow& row, std::string_view field, bool is_set) {
  if (!is_set) return absl::OkStatus();
  std::string_view rest = row.fields;
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    if (rest.substr(0, comma) == field) return absl::OkStatus();
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return AttributeInvalid(
      row, field, "given",
      row.fields.empty() ? std::string("no attributes") : StrCat("the attributes that the op uses: ", row.fields));
}

absl::Status ShapeMismatch(const OpRow& row, std::string_view shapes, int64_t axis, std::string_view why) {
  return Refuse(Reason::kShapeMismatch, row).With("shapes", shapes).With("axis", axis).Say("why", why);
}

std::string_view OperandName(const OpRow& row, size_t i) {
  std::string_view rest = row.operands;
  for (;; --i) {
    const size_t comma = rest.find(',');
    std::string_view name = rest.substr(0, comma);
    if (i == 0 || comma == std::string_view::npos) {
      while (name.ends_with('?') || name.ends_with('*')) name.remove_suffix(1);
      return name;
    }
    rest.remove_prefix(comma + 1);
  }
}

absl::Status CheckResult(const OpRow& row, Dtype dtype, absl::Span<const int64_t> shape) {
  const absl::StatusOr<int64_t> bytes = CheckedBytes(dtype, shape);
  if (bytes.ok()) return absl::OkStatus();
  if (row.family == Family::kCreate || row.family == Family::kConstant) {
    return AtPath(WithMetadata(bytes.status(), "op", row.name), StrCat(FamilyAttributes(row.family), "."));
  }
  // The result's shape is no field of the request, so no path is named.
  if (shape.size() > kMaxRank) {
    return Refuse(Reason::kLimitExceeded, row)
        .With("limit", "max_rank")
        .With("value", shape.size())
        .With("maximum", kMaxRank);
  }
  return Refuse(Reason::kShapeInvalid, row).With("shape", ShapeText(shape)).With("item_bytes", ItemSize(dtype));
}

absl::StatusOr<Inference> OneResult(const OpRow& row, Dtype dtype, Dims shape, Dtype compute) {
  TENSORD_RETURN_IF_ERROR(CheckResult(row, dtype, shape));
  Inference inference;
  inference.outputs.push_back({dtype, std::move(shape)});
  inference.compute = compute;
  return inference;
}

absl::StatusOr<const TensorType*> NeedTensor(const Call& call, size_t i) {
  const OperandType& operand = call.operands[i];
  if (operand.tensor) return operand.tensor;
  return Refuse(Reason::kArityInvalid, call.row)
      .With("expected", StrCat("a tensor as ", OperandName(call.row, i)))
      .With("got", StrCat("the scalar ", operand.scalar ? operand.scalar->ToString() : "-"))
      .At(StrCat("inputs[", i, "]"));
}

absl::StatusOr<int> NormalizeAxis(const OpRow& row, int64_t axis, int rank, std::string_view field) {
  if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
  return Refuse(Reason::kAxisInvalid, row).With("axis", axis).With("rank", rank).At(FieldPath(row, field));
}

namespace {

// "2 operands", "1 to 3 operands", "at least 1 operand".
std::string ArityText(const OpRow& row) {
  const auto count = [](int n) { return StrCat(n, n == 1 ? " operand" : " operands"); };
  if (row.max_operands < 0) return "any number of operands";
  if (row.min_operands == row.max_operands) return count(row.min_operands);
  return StrCat(row.min_operands, " to ", count(row.max_operands));
}

absl::Status CheckArity(const Call& call) {
  const OpRow& row = call.row;
  const auto given = static_cast<int>(call.operands.size());
  if (given < row.min_operands || (row.max_operands >= 0 && given > row.max_operands)) {
    return Refuse(Reason::kArityInvalid, row).With("expected", ArityText(row)).With("got", given).At("inputs");
  }
  const int required = row.max_operands < 0 ? given : row.min_operands;
  for (int i = 0; i < required; ++i) {
    if (!call.operands[i].absent()) continue;
    return Refuse(Reason::kArityInvalid, row)
        .With("expected", StrCat(OperandName(row, i), " (operand ", i, ")"))
        .With("got", "none")
        .At(StrCat("inputs[", i, "]"));
  }
  if (call.instruction.output_count > 1) {
    return Refuse(Reason::kArityInvalid, row)
        .With("expected", "1 result")
        .With("got", call.instruction.output_count)
        .At("output_count");
  }
  return absl::OkStatus();
}

absl::Status CheckComplex(const Call& call) {
  for (const OperandType& operand : call.operands) {
    const Dtype dtype = operand.tensor ? operand.tensor->dtype : operand.scalar ? operand.scalar->dtype : Dtype::kNone;
    if (!IsComplex(dtype)) continue;
    return Refuse(Reason::kOpUnsupported, call.row)
        .With("dtype", DtypeName(dtype))
        .With("device", "any device")
        .With("supported", KnownDtypes());
  }
  return absl::OkStatus();
}

// Index into the variant of attributes.h for each family.
bool AttributesFit(Family family, const Attributes& attributes) {
  switch (family) {
    case Family::kCreate:
      return std::holds_alternative<CreateAttributes>(attributes);
    case Family::kConstant:
      return std::holds_alternative<ConstantAttributes>(attributes);
    case Family::kConvert:
      return std::holds_alternative<ConvertAttributes>(attributes);
    case Family::kReduce:
    case Family::kSoftmax:
      return std::holds_alternative<ReduceAttributes>(attributes);
    case Family::kMatmul:
      return std::holds_alternative<MatmulAttributes>(attributes);
    case Family::kView:
      return std::holds_alternative<ViewAttributes>(attributes);
    case Family::kJoin:
      return std::holds_alternative<JoinAttributes>(attributes);
    case Family::kIndex:
      return std::holds_alternative<IndexAttributes>(attributes);
    case Family::kWindow:
      return std::holds_alternative<WindowAttributes>(attributes);
    case Family::kNorm:
      return std::holds_alternative<NormAttributes>(attributes);
    case Family::kCall:
      return std::holds_alternative<CallAttributes>(attributes);
    case Family::kNone:
    case Family::kUnary:
    case Family::kBinary:
    case Family::kCompare:
    case Family::kSelect:
      return false;
  }
  return false;
}

constexpr std::string_view kVariantNames[] = {"",     "create", "constant", "convert", "reduce", "view",
                                              "join", "index",  "matmul",   "window",  "norm",   "call"};
static_assert(std::size(kVariantNames) == std::variant_size_v<Attributes>);

absl::Status CheckAttributes(const Call& call) {
  const Attributes& attributes = call.instruction.attributes;
  if (std::holds_alternative<std::monostate>(attributes) || AttributesFit(call.row.family, attributes)) {
    return absl::OkStatus();
  }
  const std::string_view family = FamilyAttributes(call.row.family);
  const std::string_view given = kVariantNames[attributes.index()];
  return Refuse(Reason::kAttributeInvalid, call.row)
      .With("attribute", "attributes")
      .With("value", given)
      .With("allowed", family.empty() ? "none" : family)
      .At(given);
}

}  // namespace
}  // namespace infer_internal

using infer_internal::Call;

absl::StatusOr<Inference> Infer(const Instruction& instruction, absl::Span<const OperandType> operands) {
  if (!instruction.invalid.ok()) return instruction.invalid;
  const OpRow& row = RowOf(instruction.op);
  const Call call{row, instruction, operands};
  if (row.family == Family::kNone) return Inference{};
  TENSORD_RETURN_IF_ERROR(infer_internal::CheckArity(call));
  TENSORD_RETURN_IF_ERROR(infer_internal::CheckAttributes(call));
  TENSORD_RETURN_IF_ERROR(infer_internal::CheckComplex(call));
  switch (row.family) {
    case Family::kCreate:
      return infer_internal::InferCreate(call);
    case Family::kConstant:
      return infer_internal::InferConstant(call);
    case Family::kUnary:
      return infer_internal::InferUnary(call);
    case Family::kBinary:
    case Family::kCompare:
      return infer_internal::InferBinary(call);
    case Family::kSelect:
      return infer_internal::InferSelect(call);
    case Family::kConvert:
      return infer_internal::InferConvert(call);
    case Family::kReduce:
      return infer_internal::InferReduce(call);
    case Family::kSoftmax:
      return infer_internal::InferSoftmax(call);
    case Family::kMatmul:
      return infer_internal::InferMatmul(call);
    case Family::kView:
      return infer_internal::InferView(call);
    case Family::kJoin:
      return infer_internal::InferJoin(call);
    case Family::kIndex:
      return infer_internal::InferIndex(call);
    case Family::kWindow:
      return infer_internal::InferWindow(call);
    case Family::kNorm:
      return infer_internal::InferNorm(call);
    case Family::kCall:
    case Family::kNone:
      break;
  }
  return Error(Reason::kInternal).With("id", row.name).Say("cause", "its callee's signature tells its results");
}

absl::StatusOr<Dims> Broadcast(std::string_view op, absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  const absl::Span<const int64_t> longer = a.size() >= b.size() ? a : b;
  const absl::Span<const int64_t> shorter = a.size() >= b.size() ? b : a;
  Dims out(longer.begin(), longer.end());
  const size_t shift = longer.size() - shorter.size();
  for (size_t i = out.size(); i-- > shift;) {
    const int64_t x = longer[i];
    const int64_t y = shorter[i - shift];
    if (x == y || y == 1) continue;
    if (x != 1) {
      return Error(Reason::kShapeMismatch)
          .With("op", op)
          .With("shapes", StrCat(ShapeText(a), " and ", ShapeText(b)))
          .With("axis", i)
          .Say("why", StrCat("sizes are ", a.size() >= b.size() ? x : y, " and ", a.size() >= b.size() ? y : x));
    }
    out[i] = y;
  }
  return out;
}

absl::StatusOr<Axes> NormalizeAxes(std::string_view op, absl::Span<const int32_t> axes, int rank) {
  const OpRow& row = RowOf(FindOp(op));
  Axes out;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? int64_t{axes[i]} + rank : axes[i];
    const bool inside = axis >= 0 && axis < rank;
    const bool twice = inside && std::find(out.begin(), out.end(), axis) != out.end();
    if (!inside || twice) {
      Error error = Error(Reason::kAxisInvalid).With("op", op).With("axis", axes[i]).With("rank", rank);
      if (twice) error = std::move(error).Say("why", "it is given twice");
      return std::move(error).At(infer_internal::FieldPath(row, StrCat("axes[", i, "]")));
    }
    out.push_back(static_cast<int32_t>(axis));
  }
  return out;
}

}  // namespace tensord
