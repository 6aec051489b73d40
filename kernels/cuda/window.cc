// Window: conv, max_pool, avg_pool.
#include "kernels/cuda/window.h"

#include "kernels/core/error.h"

namespace tensord::cuda {

WindowAxes MakeWindowAxes(const WindowAttributes& attributes, absl::Span<const int64_t> window, const TensorView& x,
                          const TensorView& out, bool pool) {
  const auto at = [](const Dims& list, size_t i, int64_t otherwise) { return list.empty() ? otherwise : list[i]; };
  WindowAxes axes(window.size());
  for (size_t i = 0; i < axes.size(); ++i) {
    WindowAxis& axis = axes[i];
    axis.in = x.shape[i + 2];
    axis.out = out.shape[i + 2];
    axis.window = window[i];
    axis.stride = at(attributes.strides, i, pool ? window[i] : 1);
    axis.dilation = at(attributes.dilations, i, 1);
    axis.pad_begin = at(attributes.pads_begin, i, 0);
    axis.pad_end = at(attributes.pads_end, i, 0);
  }
  return axes;
}

InnerAxis MakeInnerAxis(const WindowAxis& axis) {
  InnerAxis inner;
  inner.in = axis.in;
  inner.window = axis.window;
  inner.stride = axis.out == 1 ? 1 : axis.stride;
  inner.pad = axis.pad_begin;
  inner.out = MakeDivisor(axis.out);
  inner.dilation = MakeDivisor(axis.window == 1 ? 1 : axis.dilation);
  return inner;
}

namespace {

// Kernels add and multiply these up, and nobody means more.
absl::Status CheckSteps(const KernelCall& call) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  const auto& attributes = AttributesAs<WindowAttributes>(*call.attributes);
  for (const Dims* list :
       {&attributes.sizes, &attributes.strides, &attributes.dilations, &attributes.pads_begin, &attributes.pads_end}) {
    for (const int64_t value : *list) {
      if (value <= kLargest) continue;
      return Error(Reason::kLimitExceeded)
          .With("limit", "largest step of a window on a CUDA device")
          .With("maximum", kLargest)
          .With("value", value);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunWindow(const KernelCall& call, Context& context) {
  if (call.outputs[0].elements() == 0) return absl::OkStatus();
  TENSORD_RETURN_IF_ERROR(CheckSteps(call));
  return call.op == Op::kConv ? RunConvolution(call, context) : RunPool(call, context);
}

}  // namespace tensord::cuda
