// Suggestions for misspelt names.
#pragma once

#include <string>
#include <string_view>

#include "absl/types/span.h"

namespace tensord {

// Up to three of `known` that are nearest to `name` by edit distance (transpositions count as one), nearest first,
// joined by ", ". Empty where none is within a third of the longer name's length plus one.
std::string NearestNames(std::string_view name, absl::Span<const std::string_view> known);

}  // namespace tensord
