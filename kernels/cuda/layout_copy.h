// Copies of elements as bits, from any layout to any layout on one device.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {

// Writes the elements of `from` to `to`, whose strides (in elements, one a dimension of from.shape) name every place
// once. The two do not overlap, but for the very same elements in the same places. Uses the copy engine for dense
// memory, a transpose by tiles where rows and columns change places, a strided copy otherwise. Asynchronous.
absl::Status CopyBits(const TensorView& from, void* to, absl::Span<const int64_t> to_strides, Context& context);

}  // namespace tensord::cuda
