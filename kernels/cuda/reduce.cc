// Reduce: sum, prod, mean, max, min, any, all, argmax, argmin, var, std.
#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/reduce_plan.h"

namespace tensord::cuda {
namespace {

ReduceLane LaneOf(Dtype dtype) {
  if (dtype == Dtype::kFloat64) return ReduceLane::kDouble;
  return IsReal(dtype) ? ReduceLane::kFloat : ReduceLane::kInt64;
}

// What makes the order of a dtype's lanes, or its reverse, the order of signed numbers.
uint64_t FlipFor(Dtype dtype, bool reverse) {
  constexpr uint64_t kTop = uint64_t{1} << 63;
  if (dtype == Dtype::kFloat64) return reverse ? kTop : 0;
  if (IsReal(dtype)) return reverse ? uint64_t{1} << 31 : 0;
  const uint64_t order = dtype == Dtype::kUint64 ? kTop : 0;
  return reverse ? ~order : order;
}

// Elements are brought to the dtype they are summed in first, unless lanes do that exactly.
bool SumsAsItIs(Dtype in, Dtype out) { return in == out || (!IsReal(in) && !IsReal(out)); }

absl::Status SumOrProd(ReduceKind kind, const TensorView& input, const ReduceAttributes& attributes,
                       const TensorView& out, Context& context) {
  Dense converted;
  const TensorView* x = &input;
  if (!SumsAsItIs(input.dtype, out.dtype)) {
    TENSORD_ASSIGN_OR_RETURN(converted, ToDense(input, out.dtype, context));
    x = &converted.view;
  }
  ReduceParams params = MakeReduceParams(*x, attributes, false);
  params.out = out.data;
  params.out_dtype = out.dtype;
  return Reduce(kind, LaneOf(out.dtype), params, context);
}

absl::Status Extreme(ReduceKind kind, bool min, const TensorView& input, const ReduceAttributes& attributes,
                     const TensorView& out, Context& context) {
  ReduceParams params = MakeReduceParams(input, attributes, kind == ReduceKind::kArgMax);
  params.flip_in = params.flip_out = FlipFor(input.dtype, min);
  params.last = attributes.last_index;
  params.out = out.data;
  params.out_dtype = out.dtype;
  return Reduce(kind, LaneOf(input.dtype), params, context);
}

// Any is the largest of "not 0" as 0 and 1, all the smallest.
absl::Status AnyOrAll(bool all, const TensorView& input, const ReduceAttributes& attributes, const TensorView& out,
                      Context& context) {
  ReduceParams params = MakeReduceParams(input, attributes, false);
  params.flip_in = params.flip_out = FlipFor(Dtype::kInt64, all);
  params.nonzero = true;
  params.out = out.data;
  params.out_dtype = out.dtype;
  return Reduce(ReduceKind::kMax, ReduceLane::kInt64, params, context);
}

// The second pass of var and std takes the mean from every element, so that nothing cancels.
absl::Status Moments(Op op, const TensorView& input, const ReduceAttributes& attributes, const TensorView& out,
                     Context& context) {
  Dense converted;
  const TensorView* x = &input;
  if (input.dtype != out.dtype) {
    TENSORD_ASSIGN_OR_RETURN(converted, ToDense(input, out.dtype, context));
    x = &converted.view;
  }
  const ReduceLane lane = LaneOf(out.dtype);
  ReduceParams params = MakeReduceParams(*x, attributes, false);
  const auto count = static_cast<double>(params.count);
  params.divide = true;
  params.divisor = count;
  if (op == Op::kMean) {
    params.out = out.data;
    params.out_dtype = out.dtype;
    return Reduce(ReduceKind::kSum, lane, params, context);
  }
  const bool wide = lane == ReduceLane::kDouble;
  const size_t bytes = static_cast<size_t>(std::max<int64_t>(1, params.outputs)) * (wide ? 8 : 4);
  TENSORD_ASSIGN_OR_RETURN(const Scratch means, Scratch::Allocate(bytes, context));
  params.out = means.data();
  params.out_dtype = wide ? Dtype::kFloat64 : Dtype::kFloat32;
  TENSORD_RETURN_IF_ERROR(Reduce(ReduceKind::kSum, lane, params, context));
  params.shift = means.data();
  params.square = true;
  params.divisor = std::max(count - attributes.correction, 0.0);
  params.root = op == Op::kStd;
  params.out = out.data;
  params.out_dtype = out.dtype;
  return Reduce(ReduceKind::kSum, lane, params, context);
}

}  // namespace

absl::Status RunReduce(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<ReduceAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const TensorView& input = *call.inputs[0].tensor;
  switch (call.op) {
    case Op::kSum:
      return SumOrProd(ReduceKind::kSum, input, attributes, out, context);
    case Op::kProd:
      return SumOrProd(ReduceKind::kProd, input, attributes, out, context);
    case Op::kMax:
    case Op::kMin:
      return Extreme(ReduceKind::kMax, call.op == Op::kMin, input, attributes, out, context);
    case Op::kArgMax:
    case Op::kArgMin:
      return Extreme(ReduceKind::kArgMax, call.op == Op::kArgMin, input, attributes, out, context);
    case Op::kAny:
    case Op::kAll:
      return AnyOrAll(call.op == Op::kAll, input, attributes, out, context);
    case Op::kMean:
    case Op::kVar:
    case Op::kStd:
      return Moments(call.op, input, attributes, out, context);
    default:
      return Error(Reason::kInternal).Say("id", "cuda.reduce").With("cause", RowOf(call.op).name);
  }
}

}  // namespace tensord::cuda
