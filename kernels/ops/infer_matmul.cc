// Matrix products.
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// A matrix operand: rows and columns after transposition, and the axes in front.
struct Matrix {
  int64_t rows = 1;
  int64_t columns = 1;
  absl::Span<const int64_t> batch;
  bool vector = false;
};

absl::StatusOr<Matrix> AsMatrix(const Call& call, size_t i, const TensorType& type, bool transpose) {
  const absl::Span<const int64_t> shape = type.shape;
  const std::string_view field = i == 0 ? "transpose_a" : "transpose_b";
  if (shape.empty()) {
    return Refuse(Reason::kShapeMismatch, call.row)
        .With("shapes", ShapeText(shape))
        .Say("why", StrCat(OperandName(call.row, i), " needs at least one axis; multiply by a scalar instead"));
  }
  if (shape.size() == 1) {
    if (transpose) return AttributeInvalid(call.row, field, "true", "false for an operand of one axis");
    // A vector is a row on the left and a column on the right.
    return i == 0 ? Matrix{1, shape[0], {}, true} : Matrix{shape[0], 1, {}, true};
  }
  const size_t n = shape.size();
  Matrix m{shape[n - 2], shape[n - 1], shape.first(n - 2), false};
  if (transpose) std::swap(m.rows, m.columns);
  return m;
}

absl::StatusOr<Inference> InferProduct(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<MatmulAttributes>();
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x1, NeedTensor(call, 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x2, NeedTensor(call, 1));
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, compute));
  TENSORD_ASSIGN_OR_RETURN(const Matrix a, AsMatrix(call, 0, *x1, attributes.transpose_a));
  TENSORD_ASSIGN_OR_RETURN(const Matrix b, AsMatrix(call, 1, *x2, attributes.transpose_b));
  const auto shapes = [&] { return StrCat(ShapeText(x1->shape), " and ", ShapeText(x2->shape)); };
  if (a.columns != b.rows) {
    const int rank = static_cast<int>(x1->shape.size());
    const int axis = attributes.transpose_a ? rank - 2 : rank - 1;
    const int other = static_cast<int>(x2->shape.size()) - (b.vector || attributes.transpose_b ? 1 : 2);
    return ShapeMismatch(row, shapes(), axis,
                         StrCat("x1 has ", a.columns, " there, x2 has ", b.rows, " at axis ", other));
  }
  absl::StatusOr<Dims> shape = Broadcast(row.name, a.batch, b.batch);
  if (!shape.ok()) {
    // The axis is that of the broadcast batch, which leads the result; the shapes are shown whole.
    const ErrorDetails details = DetailsOf(shape.status());
    return Refuse(Reason::kShapeMismatch, row)
        .With("shapes", shapes())
        .With("axis", details.Get("axis"))
        .Say("why", "the axes before the last two broadcast");
  }
  if (!a.vector) shape->push_back(a.rows);
  if (!b.vector) shape->push_back(b.columns);
  return OneResult(row, result, *std::move(shape), compute);
}

absl::StatusOr<Inference> InferLinear(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<MatmulAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "transpose_a", attributes.transpose_a));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "transpose_b", attributes.transpose_b));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* weight, NeedTensor(call, 1));
  const TensorType* bias = nullptr;
  if (call.has(2)) {
    TENSORD_ASSIGN_OR_RETURN(bias, NeedTensor(call, 2));
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, compute));
  if (weight->shape.size() != 2) {
    return Refuse(Reason::kShapeMismatch, row)
        .With("shapes", ShapeText(weight->shape))
        .Say("why", "weight has two axes, (out, in)");
  }
  const std::string shapes = StrCat(ShapeText(x->shape), " and ", ShapeText(weight->shape));
  const int64_t in = weight->shape[1];
  const int64_t out = weight->shape[0];
  const auto rank = static_cast<int64_t>(x->shape.size());
  if (rank == 0) {
    return Refuse(Reason::kShapeMismatch, row).With("shapes", shapes).Say("why", "x needs at least one axis");
  }
  if (x->shape.back() != in) {
    return ShapeMismatch(row, shapes, rank - 1, StrCat("x has ", x->shape.back(), " there, weight takes ", in));
  }
  if (bias && (bias->shape.size() != 1 || bias->shape[0] != out)) {
    return ShapeMismatch(row, StrCat(ShapeText(weight->shape), " and ", ShapeText(bias->shape)), 0,
                         StrCat("bias must be [", out, "]"));
  }
  Dims shape = x->shape;
  shape.back() = out;
  return OneResult(row, result, std::move(shape), compute);
}

}  // namespace

absl::StatusOr<Inference> InferMatmul(const Call& call) {
  const Precision precision = call.attributes<MatmulAttributes>().precision;
  if (precision > Precision::kBfloat16) {
    return AttributeInvalid(call.row, "precision", StrCat(static_cast<int>(precision)), "float32, TF32, bfloat16");
  }
  return call.row.op == Op::kLinear ? InferLinear(call) : InferProduct(call);
}

}  // namespace tensord::infer_internal
