#include "kernels/core/tensor_view.h"

namespace tensord {
namespace {

// Axes of size 1 may have any stride, and an empty tensor any strides.
bool IsContiguous(absl::Span<const int64_t> shape, absl::Span<const int64_t> strides) {
  int64_t step = 1;
  bool dense = true;
  for (size_t i = shape.size(); i-- > 0;) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != step) dense = false;
    step *= shape[i];
  }
  return dense;
}

}  // namespace

bool TensorView::contiguous() const { return IsContiguous(shape, strides); }

Layout Layout::Contiguous(absl::Span<const int64_t> shape) {
  return {Dims(shape.begin(), shape.end()), ContiguousStrides(shape), 0};
}

bool Layout::contiguous() const { return IsContiguous(shape, strides); }

}  // namespace tensord
