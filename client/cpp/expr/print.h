// Tensors as PyTorch prints them, and as JSON.
//
//   tensor([[1., 1., 1.],
//           [1., 1., 1.]], device='cuda:0')
//
// Large tensors are shown by their edges, so only these need to be fetched: EdgeShape tells how many elements each axis
// shows, and the caller gets those alone (the first and last `edgeitems` of each longer axis).
#pragma once

#include <string>
#include <string_view>

#include "kernels/core/shape.h"

namespace tensord::expr {

// PyTorch's print options with its defaults.
struct PrintOptions {
  int precision = 4;         // digits after the point
  int64_t threshold = 1000;  // more elements than this are shown by their edges
  int64_t edgeitems = 3;     // at each end of an axis
  int linewidth = 80;
};

// True where the tensor is shown by its edges only.
bool IsSummarized(absl::Span<const int64_t> shape, const PrintOptions& options);
// The shape of what is shown.
Dims EdgeShape(absl::Span<const int64_t> shape, const PrintOptions& options);

// The text. `data` holds the elements of EdgeShape(spec.type.shape), raw, in row-major order.
std::string TensorText(const TensorSpec& spec, std::string_view data, const PrintOptions& options = {});

// Nested lists of all elements ("[[1.0,2.0],[3.0,4.0]]"; a 0-d tensor is its number), raw bytes in.
std::string TensorDataJson(const TensorType& type, std::string_view data);
// {"dtype":"float32","shape":[2,3],"device":"cuda:0","data":[[…]]}.
std::string TensorJson(const TensorSpec& spec, std::string_view data);
// The same nested lists as Python prints them: "[[1.0, 2.0], [3.0, 4.0]]".
std::string TensorListText(const TensorType& type, std::string_view data);

}  // namespace tensord::expr
