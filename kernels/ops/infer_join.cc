// Several tensors into one, and elements by index: Join and Index.
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// The operands' shapes, at most eight of them: "[2,3], [2,4]".
std::string ShapesText(const TensorType& a, const TensorType& b) {
  return StrCat(ShapeText(a.shape), " and ", ShapeText(b.shape));
}

}  // namespace

absl::StatusOr<Inference> InferJoin(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<JoinAttributes>();
  const bool stack = row.op == Op::kStack;
  if (call.operands.empty()) {
    return Refuse(Reason::kArityInvalid, row).With("expected", "at least 1 operand").With("got", 0).At("inputs");
  }
  TENSORD_ASSIGN_OR_RETURN(const TensorType* first, NeedTensor(call, 0));
  const int rank = static_cast<int>(first->shape.size());
  TENSORD_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(row, attributes.axis, stack ? rank + 1 : rank, "axis"));
  int64_t size = 0;
  bool overflow = false;
  for (size_t i = 0; i < call.operands.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, i));
    if (x->shape.size() != first->shape.size()) {
      return Refuse(Reason::kShapeMismatch, row)
          .With("shapes", ShapesText(*first, *x))
          .Say("why", StrCat("operand ", i, " has another number of axes than operand 0"));
    }
    for (int d = 0; d < rank; ++d) {
      if (x->shape[d] != first->shape[d] && (stack || d != axis)) {
        return ShapeMismatch(row, ShapesText(*first, *x), d, StrCat("operand ", i, " differs from operand 0"));
      }
    }
    overflow |= __builtin_add_overflow(size, stack ? 1 : x->shape[axis], &size);
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, compute));
  if (overflow) {
    return Refuse(Reason::kShapeInvalid, row).With("shape", "[more than 2^63]").With("item_bytes", ItemSize(result));
  }
  Dims shape = first->shape;
  if (stack) {
    shape.insert(shape.begin() + axis, size);
  } else {
    shape[axis] = size;
  }
  return OneResult(row, result, std::move(shape), compute);
}

absl::StatusOr<Inference> InferIndex(const Call& call) {
  const OpRow& row = call.row;
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* indices, NeedTensor(call, 1));
  if (!IsInteger(indices->dtype)) {
    return Refuse(Reason::kDtypeMismatch, row)
        .With("dtypes", StrCat(DtypeName(indices->dtype), " as indices"))
        .Say("why", "indices are integers; cast them to int64 first");
  }
  const int rank = static_cast<int>(x->shape.size());
  TENSORD_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(row, call.attributes<IndexAttributes>().axis, rank, "axis"));
  Dims shape(x->shape.begin(), x->shape.begin() + axis);
  shape.insert(shape.end(), indices->shape.begin(), indices->shape.end());
  shape.insert(shape.end(), x->shape.begin() + axis + 1, x->shape.end());
  return OneResult(row, x->dtype, std::move(shape), x->dtype);
}

}  // namespace tensord::infer_internal
