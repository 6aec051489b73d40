// Tokens to statements, by recursive descent.
//
//   auto statements = Parse("X = ones(2, 3); X.sum(axis=1)");
//
// The language is the part of Python's that names, calls, operators, indexing and assignment need; README.md has the
// grammar. What Python
// has and this language has not (if, for, def, lambda, comprehensions, …) is refused by name, not as a riddle.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/ast.h"

namespace tensord::expr {

// Bounds, so that no text can exhaust the stack: how deep brackets, calls, signs and the like may nest, and how many
// operators may stand on each other's results in all (1 + 1 + … is one level, however long).
inline constexpr uint32_t kMaxDepth = 200;
inline constexpr uint32_t kMaxHeight = 2000;

// Errors: EXPRESSION_INVALID with line and column, expected and found.
absl::StatusOr<std::vector<Statement>> Parse(std::string_view source);

// True where the text stops inside brackets or after a backslash, and is right so far: more lines may complete it.
// False, too, where no further line can: Parse says why.
bool NeedsMoreLines(std::string_view source);

// Words that cannot be names.
bool IsReserved(std::string_view word);

}  // namespace tensord::expr
