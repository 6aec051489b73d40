#include "client/cpp/expr/problem.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

// Bytes that do not start a code point.
bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

absl::Status Problem(std::string_view source, size_t offset, std::string_view problem,
                     std::vector<std::pair<std::string, std::string>> more) {
  const Place place = PlaceOf(source, offset);
  ErrorDetails details;
  details.reason_name = kExpressionInvalid;
  details.metadata = std::move(more);
  details.metadata.emplace_back("line", std::to_string(place.line));
  details.metadata.emplace_back("column", std::to_string(place.column));
  details.metadata.emplace_back("problem", problem);
  details.metadata.emplace_back("source", place.text);
  return StatusWithDetails(absl::StatusCode::kInvalidArgument,
                           StrCat("line ", place.line, ", column ", place.column, ": ", problem), details);
}

}  // namespace

Place PlaceOf(std::string_view source, size_t offset) {
  offset = std::min(offset, source.size());
  Place place;
  size_t start = 0;
  for (size_t i = 0; i < offset; ++i) {
    if (source[i] == '\n') {
      ++place.line;
      start = i + 1;
    }
  }
  for (size_t i = start; i < offset; ++i) {
    if (!IsContinuation(source[i])) ++place.column;
  }
  const size_t end = std::min(source.find('\n', start), source.size());
  place.text = std::string(source.substr(start, end - start));
  return place;
}

absl::Status ExpressionProblem(std::string_view source, size_t offset, std::string_view problem) {
  return Problem(source, offset, problem, {});
}

absl::Status SyntaxProblem(std::string_view source, size_t offset, std::string_view expected, std::string_view found) {
  return Problem(source, offset, StrCat("expected ", expected, ", found ", found),
                 {{"expected", std::string(expected)}, {"found", std::string(found)}});
}

std::string CaretLines(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  if (details.reason_name != kExpressionInvalid) return "";
  const std::string_view column_text = details.Get("column");
  size_t column = 1;
  std::from_chars(column_text.data(), column_text.data() + column_text.size(), column);
  std::string line(details.Get("source"));
  // A tab keeps its width above the caret only if it is repeated below.
  std::string pad;
  size_t seen = 1;
  for (size_t i = 0; i < line.size() && seen < column; ++i) {
    if (IsContinuation(line[i])) continue;
    pad.push_back(line[i] == '\t' ? '\t' : ' ');
    ++seen;
  }
  return StrCat("    ", line, "\n    ", pad, "^\n");
}

}  // namespace tensord::expr
