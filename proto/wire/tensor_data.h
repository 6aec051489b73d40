// Values inline: TensorData in its raw or typed form <-> raw little-endian bytes in row-major order.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/core/shape.h"
#include "server/engine/types.h"
#include "tensord/v1/types.pb.h"

namespace tensord::wire {

// The bytes of a tensor of `type`, which has passed CheckedBytes. Typed lists: reals for real and complex dtypes (real,
// imaginary in turn), integers for bool and signed ones, unsigneds for unsigned ones. Errors: DATA_INVALID for another
// count, another list than the dtype's, more than one list, a bool byte that is neither 0 nor 1; SCALAR_RANGE for a
// value that the dtype cannot hold; both with the element's index. Paths begin with the list's name ("reals[3]").
absl::StatusOr<std::string> FromProto(const v1::TensorData& proto, const TensorType& type);

// kNone: empty. kTyped: the list that fits the dtype. `raw` has the size that `type` says.
v1::TensorData ToProto(std::string_view raw, const TensorType& type, ValueFormat format);

// The form that values came in: kTyped where a list has any, else kRaw.
ValueFormat FormatOf(const v1::TensorData& proto);

}  // namespace tensord::wire
