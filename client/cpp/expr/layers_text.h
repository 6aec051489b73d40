// Layers written as an expression, without a session: "nn.Sequential(nn.Linear(3, 1), nn.ReLU())".
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "server/engine/types.h"

namespace tensord::expr {

// Only constructors of layers with literals as arguments. Errors: EXPRESSION_INVALID; types and options are the
// daemon's to judge.
absl::StatusOr<Layer> ParseLayers(std::string_view text);

}  // namespace tensord::expr
