// Pooling: max_pool and avg_pool.
#include <algorithm>
#include <bit>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/reduce_plan.h"
#include "kernels/cuda/window.h"

namespace tensord::cuda {
namespace {

// Taps of the last axis from which lanes share them.
constexpr int64_t kTapsOfLane = 8;

// One launch: contiguous (planes, axes…, behind) pooled over up to three axes, two where something is behind them.
absl::Status PoolOnce(const WindowAxes& axes, int64_t planes, int64_t behind, bool average, bool count_pads,
                      const void* x, void* out, Dtype dtype, Context& context) {
  PoolParams params;
  params.x = x;
  params.out = out;
  params.average = average;
  params.count_pads = count_pads;
  params.outputs = planes * behind;
  WindowAxes all = axes;
  if (behind > 1) all.push_back({behind, behind});
  const size_t first = kInnerAxes - all.size();
  for (size_t i = 0; i < all.size(); ++i) {
    params.inner[first + i] = MakeInnerAxis(all[i]);
    params.pad_end[first + i] = all[i].pad_end;
  }
  for (const WindowAxis& axis : axes) params.outputs *= axis.out;
  const int64_t taps = std::min(all.back().window, all.back().in);
  const auto lanes = static_cast<uint64_t>(std::clamp<int64_t>(taps / kTapsOfLane, 1, 32));
  params.width = static_cast<int32_t>(std::bit_floor(lanes));
  const unsigned blocks = GridFor(params.outputs * params.width, kWindowThreads, context.traits);
  return ToStatus(LaunchPool(dtype, params, blocks, context.stream), context.traits, "pool");
}

// Whether the one window is all of the input.
bool IsGlobal(const WindowAxes& axes) {
  return std::all_of(axes.begin(), axes.end(), [](const WindowAxis& axis) {
    return axis.out == 1 && axis.window == axis.in && axis.dilation == 1 && axis.pad_begin == 0 && axis.pad_end == 0;
  });
}

// A reduction over the axes of space: many threads to an output, and x as it lies.
absl::Status PoolGlobally(bool average, const TensorView& x, const TensorView& out, Context& context) {
  ReduceAttributes attributes;
  for (int axis = 2; axis < x.rank(); ++axis) attributes.axes.push_back(axis);
  ReduceParams params = MakeReduceParams(x, attributes, false);
  params.divide = average;
  params.divisor = static_cast<double>(params.count);
  params.out = out.data;
  params.out_dtype = out.dtype;
  const ReduceLane lane = out.dtype == Dtype::kFloat64 ? ReduceLane::kDouble : ReduceLane::kFloat;
  return Reduce(average ? ReduceKind::kSum : ReduceKind::kMax, lane, params, context);
}

// More than three axes are pooled in turns, the last ones first: a window's largest element is the largest of its
// lines' largest ones, its mean the mean of theirs. Between turns values stay in what they are computed in.
absl::Status PoolInTurns(const WindowAxes& axes, bool average, bool count_pads, const TensorView& input,
                         const TensorView& out, Context& context) {
  const Dtype work = out.dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(input, work, context));
  const void* from = x.view.data;
  std::optional<Scratch> held;
  int64_t elements = input.elements();
  int64_t behind = 1;
  for (size_t last = axes.size(); last > 0;) {
    const size_t first = last - std::min<size_t>(last, behind == 1 ? 3 : 2);
    const WindowAxes some(axes.begin() + static_cast<std::ptrdiff_t>(first),
                          axes.begin() + static_cast<std::ptrdiff_t>(last));
    int64_t in = behind;
    int64_t outs = behind;
    for (const WindowAxis& axis : some) {
      in *= axis.in;
      outs *= axis.out;
    }
    const int64_t planes = elements / in;
    elements = planes * outs;
    const size_t bytes = static_cast<size_t>(elements) * ItemSize(work);
    TENSORD_ASSIGN_OR_RETURN(Scratch to, Scratch::Allocate(bytes, context));
    TENSORD_RETURN_IF_ERROR(PoolOnce(some, planes, behind, average, count_pads, from, to.data(), work, context));
    from = to.data();
    held = std::move(to);
    behind = outs;
    last = first;
  }
  TensorView result = out;
  result.dtype = work;
  result.data = const_cast<void*>(from);
  return CopyStrided(result, out, context);
}

}  // namespace

absl::Status RunPool(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<WindowAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const TensorView& input = *call.inputs[0].tensor;
  const bool average = call.op == Op::kAvgPool;
  const WindowAxes axes = MakeWindowAxes(attributes, attributes.sizes, input, out, true);
  if (IsGlobal(axes)) return PoolGlobally(average, input, out, context);
  if (axes.size() > kInnerAxes) return PoolInTurns(axes, average, attributes.count_pads, input, out, context);
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(input, out.dtype, context));
  return PoolOnce(axes, out.shape[0] * out.shape[1], 1, average, attributes.count_pads, x.view.data, out.data,
                  out.dtype, context);
}

}  // namespace tensord::cuda
