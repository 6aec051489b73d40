// Windows that slide over space (convolution, pooling), and normalisations.
#include <cmath>
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {
namespace {

// A wide integer: dilation * (window - 1) + 1 does not overflow.
using Wide = __int128;

// One spatial axis of a window.
struct Axis {
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;

  // How far the window reaches.
  Wide extent() const { return static_cast<Wide>(dilation) * (window - 1) + 1; }
};

absl::Status CheckList(const OpRow& row, std::string_view field, const Dims& list, size_t spatial, int64_t least) {
  const auto refuse = [&](std::string_view allowed) {
    return AttributeInvalid(row, field, StrCat("[", StrJoin(list, ","), "]"), allowed);
  };
  if (list.empty()) return absl::OkStatus();
  if (list.size() != spatial) return refuse(StrCat(spatial, " numbers, one for each axis of space"));
  for (const int64_t value : list) {
    if (value < least) return refuse(StrCat("numbers >= ", least));
  }
  return absl::OkStatus();
}

absl::Status CheckLists(const OpRow& row, const WindowAttributes& a, size_t spatial) {
  TENSORD_RETURN_IF_ERROR(CheckList(row, "sizes", a.sizes, spatial, 1));
  TENSORD_RETURN_IF_ERROR(CheckList(row, "strides", a.strides, spatial, 1));
  TENSORD_RETURN_IF_ERROR(CheckList(row, "dilations", a.dilations, spatial, 1));
  TENSORD_RETURN_IF_ERROR(CheckList(row, "pads_begin", a.pads_begin, spatial, 0));
  TENSORD_RETURN_IF_ERROR(CheckList(row, "pads_end", a.pads_end, spatial, 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "dilations", !a.dilations.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "groups", a.groups != 0));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "ceil_mode", a.ceil_mode));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "count_pads", a.count_pads));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "precision", a.precision != Precision::kFloat32));
  if (a.groups < 0) return AttributeInvalid(row, "groups", StrCat(a.groups), "numbers >= 0; 0 means 1");
  return absl::OkStatus();
}

int64_t At(const Dims& list, size_t i, int64_t otherwise) { return list.empty() ? otherwise : list[i]; }

// The number of places a window takes on an axis, by PyTorch's rule: with ceil_mode a last window may hang over the
// end, but must begin inside the input or the padding before it.
absl::StatusOr<int64_t> OutputSize(const OpRow& row, const TensorType& x, size_t dimension, const Axis& axis,
                                   bool ceil_mode) {
  const int64_t in = x.shape[dimension];
  const Wide padded = static_cast<Wide>(in) + axis.pad_begin + axis.pad_end;
  const Wide room = padded - axis.extent();
  if (room < 0) {
    return ShapeMismatch(row, ShapeText(x.shape), static_cast<int64_t>(dimension),
                         StrCat("the window of ", axis.window, " with dilation ", axis.dilation,
                                " is larger than the axis with its padding"));
  }
  Wide out = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
  if (ceil_mode && (out - 1) * axis.stride >= static_cast<Wide>(in) + axis.pad_begin) --out;
  if (out > INT64_MAX) {
    return Refuse(Reason::kShapeInvalid, row).With("shape", "[more than 2^63]").With("item_bytes", ItemSize(x.dtype));
  }
  return static_cast<int64_t>(out);
}

absl::Status NeedSpace(const OpRow& row, const TensorType& x) {
  if (x.shape.size() >= 3) return absl::OkStatus();
  return Refuse(Reason::kShapeMismatch, row)
      .With("shapes", ShapeText(x.shape))
      .Say("why", "x has at least three axes: batch, channels, space");
}

absl::StatusOr<Inference> InferConv(const Call& call) {
  const OpRow& row = call.row;
  const auto& a = call.attributes<WindowAttributes>();
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* weight, NeedTensor(call, 1));
  TENSORD_RETURN_IF_ERROR(NeedSpace(row, *x));
  const size_t spatial = x->shape.size() - 2;
  TENSORD_RETURN_IF_ERROR(CheckLists(row, a, spatial));
  const std::string shapes = StrCat(ShapeText(x->shape), " and ", ShapeText(weight->shape));
  if (weight->shape.size() != x->shape.size()) {
    return Refuse(Reason::kShapeMismatch, row)
        .With("shapes", shapes)
        .Say("why", StrCat("weight has as many axes as x: out, in / groups, ", spatial, " of space"));
  }
  const int64_t groups = a.groups == 0 ? 1 : a.groups;
  const int64_t channels = x->shape[1];
  const int64_t outputs = weight->shape[0];
  if (channels == 0 || channels % groups != 0 || channels / groups != weight->shape[1]) {
    return ShapeMismatch(row, shapes, 1,
                         StrCat("x has ", channels, " channels, weight takes ", weight->shape[1], " in each of ",
                                groups, groups == 1 ? " group" : " groups"));
  }
  if (outputs % groups != 0) {
    return ShapeMismatch(row, shapes, 0, StrCat(outputs, " results cannot be divided by ", groups, " groups"));
  }
  if (call.has(2)) {
    TENSORD_ASSIGN_OR_RETURN(const TensorType* bias, NeedTensor(call, 2));
    if (bias->shape.size() != 1 || bias->shape[0] != outputs) {
      return ShapeMismatch(row, StrCat(ShapeText(weight->shape), " and ", ShapeText(bias->shape)), 0,
                           StrCat("bias must be [", outputs, "]"));
    }
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, compute));
  Dims shape{x->shape[0], outputs};
  for (size_t i = 0; i < spatial; ++i) {
    const int64_t window = weight->shape[i + 2];
    if (window == 0) {
      return ShapeMismatch(row, shapes, static_cast<int64_t>(i) + 2, "the window is empty");
    }
    if (!a.sizes.empty() && a.sizes[i] != window) {
      return AttributeInvalid(row, "sizes", ShapeText(a.sizes),
                              StrCat("the window of weight, ", ShapeText(weight->shape)));
    }
    const Axis axis{window, At(a.strides, i, 1), At(a.dilations, i, 1), At(a.pads_begin, i, 0), At(a.pads_end, i, 0)};
    TENSORD_ASSIGN_OR_RETURN(const int64_t size, OutputSize(row, *x, i + 2, axis, false));
    shape.push_back(size);
  }
  return OneResult(row, result, std::move(shape), compute);
}

absl::StatusOr<Inference> InferPool(const Call& call) {
  const OpRow& row = call.row;
  const auto& a = call.attributes<WindowAttributes>();
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_RETURN_IF_ERROR(NeedSpace(row, *x));
  const size_t spatial = x->shape.size() - 2;
  TENSORD_RETURN_IF_ERROR(CheckLists(row, a, spatial));
  if (a.sizes.empty()) {
    return AttributeInvalid(row, "sizes", "[]", StrCat(spatial, " numbers, one for each axis of space"));
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, x->dtype));
  Dims shape{x->shape[0], x->shape[1]};
  for (size_t i = 0; i < spatial; ++i) {
    const Axis axis{a.sizes[i], At(a.strides, i, a.sizes[i]), At(a.dilations, i, 1), At(a.pads_begin, i, 0),
                    At(a.pads_end, i, 0)};
    // A window must not lie in the padding alone: it would have no element.
    for (const std::string_view field : {"pads_begin", "pads_end"}) {
      const Dims& pads = field == "pads_begin" ? a.pads_begin : a.pads_end;
      if (At(pads, i, 0) >= axis.extent()) {
        return AttributeInvalid(row, field, ShapeText(pads), "numbers smaller than the window");
      }
    }
    TENSORD_ASSIGN_OR_RETURN(const int64_t size, OutputSize(row, *x, i + 2, axis, a.ceil_mode));
    shape.push_back(size);
  }
  return OneResult(row, result, std::move(shape), x->dtype);
}

absl::Status CheckEpsilon(const OpRow& row, double epsilon) {
  if (std::isfinite(epsilon) && epsilon >= 0) return absl::OkStatus();
  return AttributeInvalid(row, "epsilon", StrCat(epsilon), "a finite number >= 0");
}

// Operands from `first` on are absent or have the shape `want`.
absl::Status CheckParameters(const Call& call, size_t first, absl::Span<const int64_t> want, int64_t axis) {
  for (size_t i = first; i < call.operands.size(); ++i) {
    if (!call.has(i)) continue;
    TENSORD_ASSIGN_OR_RETURN(const TensorType* parameter, NeedTensor(call, i));
    if (absl::MakeConstSpan(parameter->shape) != want) {
      return ShapeMismatch(call.row,
                           StrCat(ShapeText(call.operands[0].tensor->shape), " and ", ShapeText(parameter->shape)),
                           axis, StrCat(OperandName(call.row, i), " must be ", ShapeText(want)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Inference> InferWindow(const Call& call) {
  const Precision precision = call.attributes<WindowAttributes>().precision;
  if (precision > Precision::kBfloat16) {
    return AttributeInvalid(call.row, "precision", StrCat(static_cast<int>(precision)), "float32, TF32, bfloat16");
  }
  return call.row.op == Op::kConv ? InferConv(call) : InferPool(call);
}

absl::StatusOr<Inference> InferNorm(const Call& call) {
  const OpRow& row = call.row;
  const auto& attributes = call.attributes<NormAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckEpsilon(row, attributes.epsilon));
  TENSORD_RETURN_IF_ERROR(CheckUnused(row, "axis", attributes.axis != 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  const int rank = static_cast<int>(x->shape.size());
  if (row.op == Op::kBatchNorm) {
    if (rank < 2) {
      return Refuse(Reason::kShapeMismatch, row)
          .With("shapes", ShapeText(x->shape))
          .Say("why", "x has at least two axes: batch, channels");
    }
    TENSORD_RETURN_IF_ERROR(CheckParameters(call, 1, absl::MakeConstSpan(&x->shape[1], 1), 1));
  } else {
    TENSORD_ASSIGN_OR_RETURN(const int axis, NormalizeAxis(row, attributes.axis, rank, "axis"));
    TENSORD_RETURN_IF_ERROR(CheckParameters(call, 1, absl::MakeConstSpan(x->shape).subspan(axis), axis));
  }
  TENSORD_ASSIGN_OR_RETURN(const Dtype compute, PromoteOperands(call, call.operands));
  TENSORD_ASSIGN_OR_RETURN(const Dtype result, ApplyTypeRule(row, compute));
  return OneResult(row, result, x->shape, compute);
}

}  // namespace tensord::infer_internal
