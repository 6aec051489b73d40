// Norm: batch_norm with given statistics, layer_norm.
#include <algorithm>
#include <cmath>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/row_loops.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

Dtype ComputeDtype(Dtype dtype) { return dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32; }

// A parameter in the compute type, contiguous; nothing where it is left out. Its values are rounded to `dtype` on the
// way, as promotion says.
absl::StatusOr<std::optional<Dense>> Parameter(const KernelCall& call, size_t i, Dtype dtype, Context& context) {
  if (i >= call.inputs.size() || call.inputs[i].tensor == nullptr) return std::optional<Dense>();
  TENSORD_ASSIGN_OR_RETURN(Dense x, ToDense(*call.inputs[i].tensor, dtype, context));
  if (ComputeDtype(dtype) == dtype) return std::optional<Dense>(std::move(x));
  TENSORD_ASSIGN_OR_RETURN(Dense wide, ToDense(x.view, ComputeDtype(dtype), context));
  return std::optional<Dense>(std::move(wide));
}

absl::Status LayerNorm(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<NormAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const int rank = out.rank();
  const auto axis = static_cast<size_t>(attributes.axis < 0 ? attributes.axis + rank : attributes.axis);
  const absl::Span<const int64_t> shape = out.shape;
  const int64_t rows = NumElements(shape.first(axis));
  const int64_t n = NumElements(shape.subspan(axis));
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> weight, Parameter(call, 1, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> bias, Parameter(call, 2, out.dtype, context));
  const RowLoops& loops = GetRowLoops(out.dtype);
  const auto row_bytes = n * static_cast<int64_t>(ItemSize(out.dtype));
  const int64_t per_task = std::max<int64_t>(1, kChunkElements / n);
  ParallelFor((rows + per_task - 1) / per_task, rows * n >= kParallelElements, [&](int64_t task) {
    const int64_t first = task * per_task;
    loops.layer_norm(x.view.as<const char>() + first * row_bytes, out.as<char>() + first * row_bytes,
                     std::min(per_task, rows - first), n, weight ? weight->view.data : nullptr,
                     bias ? bias->view.data : nullptr, attributes.epsilon);
  });
  return absl::OkStatus();
}

// (x - mean) * scale + bias for each channel.
struct Channels {
  std::optional<Dense> mean;
  std::optional<Dense> bias;
  std::optional<Scratch> scale;
  std::optional<Scratch> zeros;

  const void* shift() const { return bias ? bias->view.data : zeros->data(); }
};

template <class C>
void Scales(const Dense& variance, const std::optional<Dense>& weight, double epsilon, int64_t n, C* scale) {
  for (int64_t i = 0; i < n; ++i) {
    const double w = weight ? static_cast<double>(weight->view.as<C>()[i]) : 1.0;
    scale[i] = static_cast<C>(w / std::sqrt(static_cast<double>(variance.view.as<C>()[i]) + epsilon));
  }
}

absl::StatusOr<Channels> Prepare(const KernelCall& call, Dtype dtype, int64_t count, Context& context) {
  const double epsilon = AttributesAs<NormAttributes>(*call.attributes).epsilon;
  Channels channels;
  TENSORD_ASSIGN_OR_RETURN(channels.mean, Parameter(call, 1, dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> variance, Parameter(call, 2, dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const std::optional<Dense> weight, Parameter(call, 3, dtype, context));
  TENSORD_ASSIGN_OR_RETURN(channels.bias, Parameter(call, 4, dtype, context));
  const size_t bytes = static_cast<size_t>(count) * ItemSize(ComputeDtype(dtype));
  TENSORD_ASSIGN_OR_RETURN(channels.scale, Scratch::Allocate(bytes, context));
  if (dtype == Dtype::kFloat64) {
    Scales(*variance, weight, epsilon, count, static_cast<double*>(channels.scale->data()));
  } else {
    Scales(*variance, weight, epsilon, count, static_cast<float*>(channels.scale->data()));
  }
  if (!channels.bias) {
    TENSORD_ASSIGN_OR_RETURN(channels.zeros, Scratch::Allocate(bytes, context));
    std::fill_n(static_cast<char*>(channels.zeros->data()), bytes, '\0');
  }
  return channels;
}

absl::Status BatchNorm(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  const absl::Span<const int64_t> shape = out.shape;
  const int64_t batch = shape[0];
  const int64_t count = shape[1];
  const int64_t space = NumElements(shape.subspan(2));
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const Channels channels, Prepare(call, out.dtype, count, context));
  const RowLoops& loops = GetRowLoops(out.dtype);
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  const auto wide = static_cast<int64_t>(ItemSize(ComputeDtype(out.dtype)));
  const char* mean = channels.mean->view.as<const char>();
  const char* scale = static_cast<const char*>(channels.scale->data());
  const char* shift = static_cast<const char*>(channels.shift());
  const bool parallel = out.elements() >= kParallelElements;
  const char* from = x.view.as<const char>();
  char* to = out.as<char>();
  if (space == 1) {
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / count);
    ParallelFor((batch + per_task - 1) / per_task, parallel, [&](int64_t task) {
      const int64_t offset = task * per_task * count * item;
      loops.affine_columns(from + offset, to + offset, std::min(per_task, batch - task * per_task), count, mean, scale,
                           shift);
    });
    return absl::OkStatus();
  }
  const int64_t rows = batch * count;
  const int64_t per_task = std::max<int64_t>(1, kChunkElements / space);
  ParallelFor((rows + per_task - 1) / per_task, parallel, [&](int64_t task) {
    for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) {
      const int64_t channel = r % count * wide;
      loops.affine_row(from + r * space * item, to + r * space * item, 1, space, mean + channel, scale + channel,
                       shift + channel);
    }
  });
  return absl::OkStatus();
}

}  // namespace

absl::Status RunNorm(const KernelCall& call, Context& context) {
  if (call.outputs[0].elements() == 0) return absl::OkStatus();
  return call.op == Op::kLayerNorm ? LayerNorm(call, context) : BatchNorm(call, context);
}

}  // namespace tensord::cpu
