// Window: conv, max_pool, avg_pool.
#include "kernels/cpu/window.h"

namespace tensord::cpu {

std::vector<WindowAxis> WindowAxes(const WindowAttributes& attributes, absl::Span<const int64_t> window,
                                   const TensorView& x, const TensorView& out, bool pool) {
  const auto at = [](const Dims& list, size_t i, int64_t otherwise) { return list.empty() ? otherwise : list[i]; };
  std::vector<WindowAxis> axes(window.size());
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

absl::Status RunWindow(const KernelCall& call, Context& context) {
  if (call.outputs[0].elements() == 0) return absl::OkStatus();
  return call.op == Op::kConv ? RunConvolution(call, context) : RunPool(call, context);
}

}  // namespace tensord::cpu
