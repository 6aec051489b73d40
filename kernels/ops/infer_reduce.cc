// Along axes: Reduce and Softmax.
#include <cmath>
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// Whether an op has no answer for no elements.
bool NeedsElements(Op op) { return op == Op::kMax || op == Op::kMin || op == Op::kArgMax || op == Op::kArgMin; }

// Axes of `shape` that are reduced, one bit each.
absl::StatusOr<uint64_t> ReducedAxes(const Call& call, const ReduceAttributes& attributes, int rank) {
  const OpRow& row = call.row;
  if (attributes.all_axes && !attributes.axes.empty()) {
    return AttributeInvalid(row, "axes", StrCat("[", StrJoin(attributes.axes, ","), "]"), "none beside all_axes");
  }
  if (attributes.all_axes) return rank == 64 ? ~uint64_t{0} : (uint64_t{1} << rank) - 1;
  const bool position = row.op == Op::kArgMax || row.op == Op::kArgMin;
  if (position && attributes.axes.size() != 1) {
    return Refuse(Reason::kAxisInvalid, row)
        .With("axis", StrCat("[", StrJoin(attributes.axes, ","), "]"))
        .With("rank", rank)
        .Say("why", "it takes one axis, or all of them")
        .At(FieldPath(row, "axes"));
  }
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(row.name, attributes.axes, rank));
  uint64_t mask = 0;
  for (const int32_t axis : axes) mask |= uint64_t{1} << axis;
  return mask;
}

// The dtype that sum and prod are asked to compute in.
absl::Status CheckReduceDtype(const OpRow& row, Dtype dtype) {
  if (IsInteger(dtype) || IsReal(dtype)) return absl::OkStatus();
  return AttributeInvalid(row, "dtype", DtypeName(dtype), "an integer or a real dtype");
}

}  // namespace

absl::StatusOr<Inference> InferReduce(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<ReduceAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "dtype", attributes.dtype != Dtype::kNone));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "correction", attributes.correction != 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "last_index", attributes.last_index));
  if (!std::isfinite(attributes.correction)) {
    return AttributeInvalid(row, "correction", StrCat(attributes.correction), "a finite number");
  }
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  const int rank = static_cast<int>(x->shape.size());
  TENSORD_ASSIGN_OR_RETURN(const uint64_t reduced, ReducedAxes(call, attributes, rank));

  Dtype compute = x->dtype;
  TENSORD_ASSIGN_OR_RETURN(Dtype result, ApplyTypeRule(row, compute));
  if (row.types == TypeRule::kNumericToWide) {
    if (attributes.dtype != Dtype::kNone) {
      TENSORD_RETURN_IF_ERROR(CheckReduceDtype(row, attributes.dtype));
      result = attributes.dtype;
    }
    compute = result;
  }

  Dims shape;
  for (int i = 0; i < rank; ++i) {
    if ((reduced >> i & 1) == 0) {
      shape.push_back(x->shape[i]);
      continue;
    }
    if (x->shape[i] == 0 && NeedsElements(row.op)) {
      return ShapeMismatch(row, ShapeText(x->shape), i, "there are no elements to choose from");
    }
    if (attributes.keepdims) shape.push_back(1);
  }
  return OneResult(row, result, std::move(shape), compute);
}

absl::StatusOr<Inference> InferSoftmax(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<ReduceAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "all_axes", attributes.all_axes));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "keepdims", attributes.keepdims));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "dtype", attributes.dtype != Dtype::kNone));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "correction", attributes.correction != 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "last_index", attributes.last_index));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_RETURN_IF_ERROR(ApplyTypeRule(row, x->dtype).status());
  const int rank = static_cast<int>(x->shape.size());
  if (attributes.axes.size() != 1) {
    return Refuse(Reason::kAxisInvalid, row)
        .With("axis", StrCat("[", StrJoin(attributes.axes, ","), "]"))
        .With("rank", rank)
        .Say("why", "it takes one axis")
        .At(FieldPath(row, "axes"));
  }
  TENSORD_RETURN_IF_ERROR(NormalizeAxes(row.name, attributes.axes, rank).status());
  return OneResult(row, x->dtype, x->shape, x->dtype);
}

}  // namespace tensord::infer_internal
