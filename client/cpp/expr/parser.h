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

// A tree is at most this deep, so that no text can exhaust the stack.
inline constexpr uint32_t kMaxDepth = 200;

// Errors: EXPRESSION_INVALID with line and column, expected and found.
absl::StatusOr<std::vector<Statement>> Parse(std::string_view source);

// Words that cannot be names.
bool IsReserved(std::string_view word);

}  // namespace tensord::expr
