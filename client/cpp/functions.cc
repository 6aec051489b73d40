#include "tensord/functions.h"

#include <utility>

#include "client/cpp/emit.h"

namespace tensord::client {
namespace {

ReduceAttributes Along(int axis) {
  ReduceAttributes out;
  out.axes = {axis};
  return out;
}

WindowAttributes ToAttributes(const WindowOptions& options) {
  WindowAttributes out;
  out.sizes = ToDims(options.sizes);
  out.strides = ToDims(options.strides);
  out.dilations = ToDims(options.dilations);
  out.pads_begin = ToDims(options.pads_begin);
  out.pads_end = ToDims(options.pads_end);
  out.groups = options.groups == 1 ? 0 : options.groups;
  out.ceil_mode = options.ceil_mode;
  out.count_pads = options.count_pads;
  return out;
}

}  // namespace

#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary)
#define TENSORD_UNARY(Enum, name, Types, summary) \
  Tensor name(const Tensor& x) { return x.name(); }
#define TENSORD_BINARY(Enum, name, Types, summary) \
  Tensor name(const Operand& x1, const Operand& x2) { return Emit(Op::k##Enum, {x1, x2}); }
#define TENSORD_COMPARE(Enum, name, Types, summary) \
  Tensor name(const Operand& x1, const Operand& x2) { return Emit(Op::k##Enum, {x1, x2}); }
#define TENSORD_REDUCE(Enum, name, Types, fields, summary) \
  Tensor name(const Tensor& x, const ReduceOptions& options) { return x.name(options); }
#include "tensord/ops.def"
#undef TENSORD_OP

Tensor where(const Tensor& condition, const Operand& x1, const Operand& x2) {
  return Emit(Op::kWhere, {condition, x1, x2});
}
Tensor clip(const Operand& x, const Operand& min, const Operand& max) { return Emit(Op::kClip, {x, min, max}); }
Tensor matmul(const Tensor& x1, const Tensor& x2) { return Emit(Op::kMatmul, {x1, x2}); }
Tensor linear(const Tensor& x, const Tensor& weight, const Operand& bias) {
  return Emit(Op::kLinear, {x, weight, bias});
}
Tensor softmax(const Tensor& x, int axis) { return Emit(Op::kSoftmax, {x}, Along(axis)); }
Tensor log_softmax(const Tensor& x, int axis) { return Emit(Op::kLogSoftmax, {x}, Along(axis)); }
Tensor concat(const std::vector<Tensor>& tensors, int axis) {
  return Emit(Op::kConcat, {tensors.begin(), tensors.end()}, JoinAttributes{.axis = axis});
}
Tensor stack(const std::vector<Tensor>& tensors, int axis) {
  return Emit(Op::kStack, {tensors.begin(), tensors.end()}, JoinAttributes{.axis = axis});
}
Tensor take(const Tensor& x, const Tensor& indices, int axis) {
  return Emit(Op::kTake, {x, indices}, IndexAttributes{.axis = axis});
}
Tensor conv(const Tensor& x, const Tensor& weight, const Operand& bias, const WindowOptions& options) {
  return Emit(Op::kConv, {x, weight, bias}, ToAttributes(options));
}
Tensor max_pool(const Tensor& x, const WindowOptions& options) {
  return Emit(Op::kMaxPool, {x}, ToAttributes(options));
}
Tensor avg_pool(const Tensor& x, const WindowOptions& options) {
  return Emit(Op::kAvgPool, {x}, ToAttributes(options));
}
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& variance, const Operand& weight,
                  const Operand& bias, double epsilon) {
  return Emit(Op::kBatchNorm, {x, mean, variance, weight, bias}, NormAttributes{.epsilon = epsilon});
}
Tensor layer_norm(const Tensor& x, int axis, const Operand& weight, const Operand& bias, double epsilon) {
  return Emit(Op::kLayerNorm, {x, weight, bias}, NormAttributes{.axis = axis, .epsilon = epsilon});
}

}  // namespace tensord::client
