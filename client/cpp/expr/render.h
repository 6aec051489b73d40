// Values as text and as JSON. Tensors are fetched, large ones by their edges only where text is wanted.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

absl::StatusOr<std::string> RenderText(Env& env, const Value& value);

// Strict JSON: numbers, strings, lists; tensors as {"dtype", "shape", "device", "data"}; devices and dtypes as their
// names; None as null.
absl::StatusOr<std::string> RenderJson(Env& env, const Value& value);

}  // namespace tensord::expr
