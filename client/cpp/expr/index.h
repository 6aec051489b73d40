// Subscripts: X[0], X[1:, ::2], X[..., None], X[idx] with integers.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

// `parts` are what stood between the commas. Slices and integers are views; a list or a tensor of integers takes
// along its axis.
// Errors: INDEX_OUT_OF_RANGE, AXIS_INVALID (more parts than axes), ATTRIBUTE_INVALID (step 0, a real), NOT_OFFERED
// (boolean masks, two index
// arrays).
absl::StatusOr<Value> IndexTensor(Env& env, const TensorPtr& tensor, const std::vector<Value>& parts);

// Lists, tuples and strings.
absl::StatusOr<Value> IndexList(Env& env, const Value& list, const Value& part);

}  // namespace tensord::expr
