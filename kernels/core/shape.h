// Shapes and what a tensor is: dtype, sizes, device.
//
// Sizes are items, outermost first; strides are items too and may be 0 (broadcast) or negative (reversed).
// CheckedBytes is the only place where sizes are multiplied up: everything from the wire passes it before memory is
// asked for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/core/device_id.h"
#include "kernels/core/dtype.h"

namespace tensord {

// Sizes or strides of a tensor.
using Dims = absl::InlinedVector<int64_t, 6>;

// The rank that the wire, and so the daemon, takes at most.
inline constexpr int kMaxRank = 64;

// Number of elements; 1 for rank 0. The shape must have passed CheckedBytes.
int64_t NumElements(absl::Span<const int64_t> shape);

// Strides, in elements, of a contiguous row-major tensor.
Dims ContiguousStrides(absl::Span<const int64_t> shape);

// Bytes of a tensor of this shape. Errors: LIMIT_EXCEEDED (rank), SHAPE_INVALID (a negative size; a product of 2^63
// bytes or more; an empty tensor's non-zero sizes are multiplied too, so (0, 2^62, 2^62) is refused).
absl::StatusOr<int64_t> CheckedBytes(Dtype dtype, absl::Span<const int64_t> shape);

// "[2,3]", "[]".
std::string ShapeText(absl::Span<const int64_t> shape);

// dtype and shape: what inference talks about.
struct TensorType {
  Dtype dtype = Dtype::kNone;
  Dims shape;

  bool operator==(const TensorType&) const = default;
  // "float32[2,3]".
  std::string ToString() const;
  int64_t elements() const { return NumElements(shape); }
  int64_t bytes() const { return elements() * static_cast<int64_t>(ItemSize(dtype)); }
};

// A tensor without its values.
struct TensorSpec {
  TensorType type;
  DeviceId device;

  bool operator==(const TensorSpec&) const = default;
  // "float32[2,3] on cuda:0".
  std::string ToString() const;
};

// A tensor that somebody asks for: the device is still text ("" means "cpu"), because whether it exists, and what to
// say if not, is the engine's to decide.
struct SpecRequest {
  TensorType type;
  std::string device;

  bool operator==(const SpecRequest&) const = default;
};

}  // namespace tensord
