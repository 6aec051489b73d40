// Refusals of the expression language itself: what the daemon never gets to see.
//
//   return ExpressionProblem(source, offset, "expected ')', found end of line");
//
// They are statuses like the daemon's (DetailsOf works), with the one reason EXPRESSION_INVALID, which is no row of
// errors.def because no
// daemon says it. Everything that the catalogue has a row for (unknown names, wrong attributes, shapes) uses that row.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace tensord::expr {

inline constexpr std::string_view kExpressionInvalid = "EXPRESSION_INVALID";
inline constexpr std::string_view kExpressionAdvice = "mend the marked place; `help` shows the language by example";

// A place in a text, counted from 1; columns are code points.
struct Place {
  size_t line = 1;
  size_t column = 1;
  std::string text;  // the line itself
};

// The place of a byte offset; past the end is the end.
Place PlaceOf(std::string_view source, size_t offset);

// INVALID_ARGUMENT EXPRESSION_INVALID "line 1, column 5: <problem>", with metadata line, column, problem and source
// (the line of text).
absl::Status ExpressionProblem(std::string_view source, size_t offset, std::string_view problem);

// "expected <expected>, found <found>", both also as metadata.
absl::Status SyntaxProblem(std::string_view source, size_t offset, std::string_view expected, std::string_view found);

// The line of text and a caret under the place, each indented by four; empty where the status names no place.
std::string CaretLines(const absl::Status& status);

}  // namespace tensord::expr
