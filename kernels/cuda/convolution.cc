// Convolution: by tiles where a group has results enough to fill them, else a thread to an output.
#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/window.h"

namespace tensord::cuda {
namespace {

// Results of a group, and products to each, from which tiles pay.
constexpr int64_t kTiledOuts = 8;
constexpr int64_t kTiledDepth = 8;

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Operands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t channels = 1;  // of a group
  int64_t group_outs = 1;
  int64_t depth = 1;  // channels of a group times taps
};

absl::Status ByTiles(const WindowAxes& axes, const Operands& operands, Dtype dtype, Context& context) {
  TiledConvolutionParams params;
  params.x = operands.x;
  params.weight = operands.weight;
  params.bias = operands.bias;
  params.out = operands.out;
  params.channels = operands.channels;
  params.groups = operands.groups;
  params.group_outs = operands.group_outs;
  params.depth = operands.depth;
  params.taps = MakeDivisor(operands.depth / operands.channels);
  int64_t places = 1;
  const size_t first = kInnerAxes - axes.size();
  for (size_t i = 0; i < axes.size(); ++i) {
    params.inner[first + i] = MakeInnerAxis(axes[i]);
    params.window[first + i] = MakeDivisor(axes[i].window);
    places *= axes[i].out;
  }
  params.places = MakeDivisor(places);
  params.columns = operands.batch * places;
  const bool large = operands.group_outs > 32 && params.columns > 32;
  const int tile = large ? kGemmLargeTile : kGemmSmallTile;
  params.row_tiles = MakeDivisor(Ceil(operands.group_outs, tile));
  params.column_tiles = MakeDivisor(Ceil(params.columns, tile));
  const int64_t tiles = params.groups * params.row_tiles.by * params.column_tiles.by;
  const unsigned blocks = GridFor(tiles * kGemmThreads, kGemmThreads, context.traits);
  return ToStatus(LaunchTiledConvolution(dtype, large, params, blocks, context.stream), context.traits, "conv");
}

absl::Status Directly(const WindowAxes& axes, const Operands& operands, Dtype dtype, Context& context) {
  ConvolutionParams params;
  params.x = operands.x;
  params.weight = operands.weight;
  params.bias = operands.bias;
  params.out = operands.out;
  params.channels = operands.channels;
  params.groups = operands.groups;
  params.group_outs = MakeDivisor(operands.group_outs);
  params.all_outs = MakeDivisor(operands.group_outs * operands.groups);
  params.outputs = operands.batch * operands.group_outs * operands.groups;
  const size_t outer = axes.size() - std::min<size_t>(axes.size(), kInnerAxes);
  for (size_t i = 0; i < axes.size(); ++i) {
    const WindowAxis& axis = axes[i];
    params.outputs *= axis.out;
    if (i >= outer) {
      params.inner[kInnerAxes - axes.size() + i] = MakeInnerAxis(axis);
      continue;
    }
    const InnerAxis steps = MakeInnerAxis(axis);
    params.outer[params.outer_axes++] = {axis.in,           steps.stride, axis.pad_begin,
                                         steps.dilation.by, steps.out,    MakeDivisor(axis.window)};
    params.outer_taps *= axis.window;
    params.outer_space *= axis.in;
  }
  const unsigned blocks = GridFor(params.outputs, kWindowThreads, context.traits);
  return ToStatus(LaunchConvolution(dtype, params, blocks, context.stream), context.traits, "conv");
}

}  // namespace

absl::Status RunConvolution(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<WindowAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const TensorView& input = *call.inputs[0].tensor;
  const TensorView& weight_in = *call.inputs[1].tensor;
  const absl::Span<const int64_t> weight_shape = weight_in.shape;
  const WindowAxes axes = MakeWindowAxes(attributes, weight_shape.subspan(2), input, out, false);
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(input, out.dtype, context));
  TENSORD_ASSIGN_OR_RETURN(const Dense weight, ToDense(weight_in, out.dtype, context));
  Dense bias;
  if (call.inputs.size() > 2 && call.inputs[2].tensor != nullptr) {
    TENSORD_ASSIGN_OR_RETURN(bias, ToDense(*call.inputs[2].tensor, out.dtype, context));
  }
  Operands operands;
  operands.x = x.view.data;
  operands.weight = weight.view.data;
  operands.bias = bias.view.data;
  operands.out = out.data;
  operands.batch = input.shape[0];
  operands.groups = std::max<int64_t>(1, attributes.groups);
  operands.channels = weight_shape[1];
  operands.group_outs = weight_shape[0] / operands.groups;
  operands.depth = NumElements(weight_shape.subspan(1));
  const bool tiled = axes.size() <= kInnerAxes && operands.group_outs >= kTiledOuts && operands.depth >= kTiledDepth;
  return tiled ? ByTiles(axes, operands, out.dtype, context) : Directly(axes, operands, out.dtype, context);
}

}  // namespace tensord::cuda
