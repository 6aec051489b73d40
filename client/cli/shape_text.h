// Shapes and dtypes as options: "2,3", "float32".
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/core/shape.h"

namespace tensord::cli {

// "2,3", "2x3" is not one; "", "()" and "scalar" are rank 0. Error: FIELD_INVALID, LIMIT_EXCEEDED (rank).
absl::StatusOr<Dims> ParseShape(std::string_view text);
// Error: DTYPE_UNKNOWN.
absl::StatusOr<Dtype> ParseDtypeOption(std::string_view text);

}  // namespace tensord::cli
