// Shapes and strides as kernels want them: broadcast, collapsed, and who lies in whose memory.
//
//   Dims shape = out.shape;
//   Dims strides[2] = {BroadcastStrides(a, shape), BroadcastStrides(b, shape)};
//   Collapse(shape, strides);
//
// Plain functions; any thread may call them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "kernels/core/tensor_view.h"

namespace tensord::cuda {

// Strides of `view` repeated to `shape`, which it broadcasts to.
Dims BroadcastStrides(const TensorView& view, absl::Span<const int64_t> shape);

// Drops dimensions of size 1 and joins neighbours that all of `strides` pass through evenly. At least one dimension is
// left, so that every remaining size is 2 or more, or the only one. The shape has elements.
void Collapse(Dims& shape, absl::Span<Dims> strides);

// All strides 0: one element everywhere.
bool IsEverywhere(absl::Span<const int64_t> strides);

// Whether some byte belongs to both.
bool Overlap(const TensorView& a, const TensorView& b);

// Whether writing `output` element by element would destroy elements of `input` that are still to be read: they overlap
// and are not the same elements in the same places.
bool Clobbers(const TensorView& output, const TensorView& input);

// `data` is a multiple of `bytes`, a power of two.
inline bool IsAligned(const void* data, size_t bytes) { return (reinterpret_cast<uintptr_t>(data) & (bytes - 1)) == 0; }

// Whether an element of one dtype has the bits of the same value in the other: equal dtypes, and integers of one width.
bool SameBits(Dtype a, Dtype b);

}  // namespace tensord::cuda
