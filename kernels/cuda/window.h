// What convolution and pooling share on the host: the window's steps over the axes of space.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/window.cuh"

namespace tensord::cuda {

struct WindowAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;
};
using WindowAxes = std::vector<WindowAxis>;

// The axes of a call: sizes of the window from `window`, the rest from the attributes and their defaults.
WindowAxes MakeWindowAxes(const WindowAttributes& attributes, absl::Span<const int64_t> window, const TensorView& x,
                          const TensorView& out, bool pool);

// An axis as kernels take it. Steps that go nowhere because there is one output, or one tap, become 1.
InnerAxis MakeInnerAxis(const WindowAxis& axis);

absl::Status RunConvolution(const KernelCall& call, Context& context);  // convolution.cc
absl::Status RunPool(const KernelCall& call, Context& context);         // pool.cc

}  // namespace tensord::cuda
