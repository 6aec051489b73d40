// A tensor in somebody else's memory: what kernels see.
//
// `data` points to element [0, …, 0] in the device's memory; only the backend may dereference it. Strides are in
// elements.
#pragma once

#include "kernels/core/shape.h"

namespace tensord {

struct TensorView {
  Dtype dtype = Dtype::kNone;
  Dims shape;
  Dims strides;
  void* data = nullptr;

  int64_t elements() const { return NumElements(shape); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(ItemSize(dtype)); }
  int rank() const { return static_cast<int>(shape.size()); }
  bool contiguous() const;
  TensorType type() const { return {dtype, shape}; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
};

// How a tensor's elements lie behind its buffer: strides and offset, in elements.
struct Layout {
  Dims shape;
  Dims strides;
  int64_t offset = 0;

  bool operator==(const Layout&) const = default;
  static Layout Contiguous(absl::Span<const int64_t> shape);
  bool contiguous() const;
};

}  // namespace tensord
