// Norm: batch_norm with given statistics, layer_norm.
#include "kernels/cuda/norm.cuh"

#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {
namespace {

// A parameter, contiguous and rounded to the dtype, as promotion says; nothing where it is left out.
absl::StatusOr<std::optional<Dense>> Parameter(const KernelCall& call, size_t i, Context& context) {
  if (i >= call.inputs.size() || call.inputs[i].tensor == nullptr) return std::optional<Dense>();
  TENSORD_ASSIGN_OR_RETURN(Dense x, ToDense(*call.inputs[i].tensor, call.outputs[0].dtype, context));
  return std::optional<Dense>(std::move(x));
}

const void* DataOf(const std::optional<Dense>& parameter) { return parameter ? parameter->view.data : nullptr; }

absl::Status LayerNorm(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<NormAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const int rank = out.rank();
  const auto axis = static_cast<size_t>(attributes.axis < 0 ? attributes.axis + rank : attributes.axis);
  const absl::Span<const int64_t> shape = out.shape;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> weight, Parameter(call, 1, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> bias, Parameter(call, 2, context));
  LayerNormParams params;
  params.x = x.view.data;
  params.out = out.data;
  params.weight = DataOf(weight);
  params.bias = DataOf(bias);
  params.rows = NumElements(shape.first(axis));
  params.n = NumElements(shape.subspan(axis));
  params.epsilon = attributes.epsilon;
  cudaError_t error = cudaSuccess;
  if (params.n <= kNormGroupRow) {
    params.width = static_cast<int32_t>(std::min<uint64_t>(std::bit_ceil(static_cast<uint64_t>(params.n)), 32));
    const unsigned blocks = GridFor(params.rows * params.width, kNormThreads, context.traits);
    error = LaunchLayerNormGroups(out.dtype, params, blocks, context.stream);
  } else {
    params.kept = params.n * (out.dtype == Dtype::kFloat64 ? 8 : 4) <= kNormRowBytes;
    const unsigned blocks = GridFor(params.rows * kNormThreads, kNormThreads, context.traits);
    error = LaunchLayerNormRows(out.dtype, params, blocks, context.stream);
  }
  return ToStatus(error, context.traits, "layer_norm");
}

absl::Status BatchNorm(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  const absl::Span<const int64_t> shape = out.shape;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> mean, Parameter(call, 1, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> variance, Parameter(call, 2, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> weight, Parameter(call, 3, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> bias, Parameter(call, 4, context));
  const size_t bytes = static_cast<size_t>(shape[1]) * (out.dtype == Dtype::kFloat64 ? 8 : 4);
  TENSORD_ASSIGN_OR_RETURN(const Scratch scale, Scratch::Allocate(bytes, context));
  BatchNormParams params;
  params.x = x.view.data;
  params.out = out.data;
  params.mean = DataOf(mean);
  params.variance = DataOf(variance);
  params.weight = DataOf(weight);
  params.bias = DataOf(bias);
  params.scale = scale.data();
  params.elements = out.elements();
  params.channels = MakeDivisor(shape[1]);
  params.space = MakeDivisor(NumElements(shape.subspan(2)));
  params.epsilon = AttributesAs<NormAttributes>(*call.attributes).epsilon;
  const unsigned few = GridFor(shape[1], kNormThreads, context.traits);
  const unsigned blocks = GridFor(params.elements, kNormThreads, context.traits);
  cudaError_t error = LaunchBatchNormScale(out.dtype, params, few, context.stream);
  if (error == cudaSuccess) error = LaunchBatchNorm(out.dtype, params, blocks, context.stream);
  return ToStatus(error, context.traits, "batch_norm");
}

}  // namespace

absl::Status RunNorm(const KernelCall& call, Context& context) {
  if (call.outputs[0].elements() == 0) return absl::OkStatus();
  return call.op == Op::kLayerNorm ? LayerNorm(call, context) : BatchNorm(call, context);
}

}  // namespace tensord::cuda
