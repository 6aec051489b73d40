// Windows that slide over space, as host and kernels see them.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/reduce_divisor.cuh"

namespace tensord::cuda {

inline constexpr int kWindowThreads = 256;
// Axes of space that the inner loops of kernels have; where there are fewer, axes of one place stand in front.
inline constexpr int kInnerAxes = 3;
inline constexpr int kMaxOuterAxes = 59;

// Tap t of the window reads, for output o, place o * stride - pad + t * dilation; outside [0, in) there is nothing.
struct InnerAxis {
  int64_t in = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t pad = 0;  // before the first place
  Divisor out;
  Divisor dilation;
};

// One of the axes before those.
struct OuterAxis {
  int64_t in = 1;
  int64_t stride = 1;
  int64_t pad = 0;
  int64_t dilation = 1;
  Divisor out;
  Divisor window;
};

// Contiguous (planes, in[0], in[1], in[2]).
struct PoolParams {
  const void* x = nullptr;
  void* out = nullptr;
  int64_t outputs = 0;
  int32_t width = 1;  // lanes to an output, a power of two up to 32
  bool average = false;
  bool count_pads = false;
  InnerAxis inner[kInnerAxes];
  int64_t pad_end[kInnerAxes] = {};  // after the last place
};

// A thread to an output: any number of axes, few results in a group.
struct ConvolutionParams {
  const void* x = nullptr;
  const void* weight = nullptr;  // (groups * group_outs, channels, window…)
  const void* bias = nullptr;    // or null
  void* out = nullptr;
  int64_t outputs = 0;
  int64_t outer_taps = 1;
  int64_t outer_space = 1;  // places of x on the outer axes
  int64_t channels = 1;     // of a group
  int64_t groups = 1;
  Divisor group_outs;
  Divisor all_outs;
  int32_t outer_axes = 0;
  InnerAxis inner[kInnerAxes];
  OuterAxis outer[kMaxOuterAxes];
};
static_assert(sizeof(ConvolutionParams) <= 4096);

// By tiles: a group's product of weight (group_outs x depth) by unfolded x (depth x columns). Inner axes alone.
struct TiledConvolutionParams {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  int64_t channels = 1;  // of a group
  int64_t groups = 1;
  int64_t group_outs = 1;
  int64_t depth = 1;    // channels times taps
  int64_t columns = 1;  // batch times places
  Divisor places;       // of out, in a plane
  Divisor taps;
  Divisor row_tiles;
  Divisor column_tiles;
  Divisor window[kInnerAxes];
  InnerAxis inner[kInnerAxes];
};

// dtype is real.
cudaError_t LaunchPool(Dtype dtype, const PoolParams& params, unsigned blocks, cudaStream_t stream);
cudaError_t LaunchConvolution(Dtype dtype, const ConvolutionParams& params, unsigned blocks, cudaStream_t stream);
// large: tiles of 64 x 64, else of 16 x 16.
cudaError_t LaunchTiledConvolution(Dtype dtype, bool large, const TiledConvolutionParams& params, unsigned blocks,
                                   cudaStream_t stream);

}  // namespace tensord::cuda
