// Softmax: softmax and log_softmax along one axis.
#include "kernels/cuda/softmax.cuh"

#include <algorithm>
#include <bit>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {
namespace {

int64_t PowerOfTwo(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

cudaError_t Launch(Dtype dtype, SoftmaxParams params, Context& context) {
  if (params.inner > 1) {
    // Strands that have some elements each, and neighbours that read together.
    const int64_t strands = std::clamp<int64_t>(PowerOfTwo((params.n + 15) / 16), 1, 8);
    params.width = static_cast<int32_t>(std::min(PowerOfTwo(params.inner), kSoftmaxThreads / strands));
    params.across = MakeDivisor((params.inner + params.width - 1) / params.width);
    const int64_t threads = params.outer * params.across.by * kSoftmaxThreads;
    return LaunchSoftmaxColumns(dtype, params, GridFor(threads, kSoftmaxThreads, context.traits), context.stream);
  }
  if (params.n <= kSoftmaxGroupRow) {
    params.width = static_cast<int32_t>(std::min<int64_t>(PowerOfTwo(params.n), 32));
    const int64_t threads = params.outer * params.width;
    return LaunchSoftmaxGroups(dtype, params, GridFor(threads, kSoftmaxThreads, context.traits), context.stream);
  }
  params.kept = params.n * (dtype == Dtype::kFloat64 ? 8 : 4) <= kSoftmaxRowBytes;
  const int64_t threads = params.outer * kSoftmaxThreads;
  return LaunchSoftmaxRows(dtype, params, GridFor(threads, kSoftmaxThreads, context.traits), context.stream);
}

}  // namespace

absl::Status RunSoftmax(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<ReduceAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  if (out.elements() == 0) return absl::OkStatus();
  const int rank = out.rank();
  const int axis = attributes.axes.empty() ? rank - 1 : (attributes.axes[0] + rank) % rank;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  const absl::Span<const int64_t> shape = out.shape;
  SoftmaxParams params;
  params.x = x.view.data;
  params.out = out.data;
  params.outer = NumElements(shape.first(static_cast<size_t>(axis)));
  params.n = shape[static_cast<size_t>(axis)];
  params.inner = NumElements(shape.subspan(static_cast<size_t>(axis) + 1));
  params.log = call.op == Op::kLogSoftmax;
  return ToStatus(Launch(out.dtype, params, context), context.traits, "softmax");
}

}  // namespace tensord::cuda
