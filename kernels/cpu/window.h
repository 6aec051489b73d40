// What convolution and pooling share: the window's steps over one spatial axis.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cpu/families.h"

namespace tensord::cpu {

// One spatial axis.
struct WindowAxis {
  int64_t in = 1;
  int64_t out = 1;
  int64_t window = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_begin = 0;
  int64_t pad_end = 0;

  // The input place that tap `tap` of the window reads for output `o`; may lie outside.
  int64_t Place(int64_t o, int64_t tap) const { return o * stride - pad_begin + tap * dilation; }
  // Taps [first, last) of the window that read inside the input for output `o`.
  void Taps(int64_t o, int64_t* first, int64_t* last) const {
    const int64_t begin = Place(o, 0);
    *first = std::min(begin >= 0 ? 0 : (-begin - 1) / dilation + 1, window);
    *last = std::max(*first, std::min(in > begin ? (in - begin - 1) / dilation + 1 : 0, window));
  }
  // Outputs [first, last) for which tap `tap` reads inside the input.
  void Inside(int64_t tap, int64_t* first, int64_t* last) const {
    const int64_t shift = tap * dilation - pad_begin;  // place = o * stride + shift
    const int64_t begin = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
    const int64_t end = in > shift ? (in - shift + stride - 1) / stride : 0;
    *first = std::min(begin, out);
    *last = std::max(*first, std::min(end, out));
  }
};

// The axes of a call: sizes of the window from `window`, the rest from the attributes and their defaults.
std::vector<WindowAxis> WindowAxes(const WindowAttributes& attributes, absl::Span<const int64_t> window,
                                   const TensorView& x, const TensorView& out, bool pool);

absl::Status RunConvolution(const KernelCall& call, Context& context);  // convolution.cc
absl::Status RunPool(const KernelCall& call, Context& context);         // pool.cc

}  // namespace tensord::cpu
