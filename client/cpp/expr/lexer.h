// Text to tokens: Python's, as far as the language goes.
//
// Newlines inside brackets are white space, as in Python; outside they end a statement. Comments begin with #.
// Numbers may have _ between
// digits. Strings are '…' or "…" with the usual escapes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tensord::expr {

enum class TokenKind : uint8_t { kName, kInteger, kReal, kString, kOperator, kNewline, kEnd };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  size_t offset = 0;     // of its first byte
  size_t end = 0;        // of the byte after it
  std::string text;      // name, operator, or the value of a string
  uint64_t integer = 0;  // kInteger
  double real = 0;       // kReal

  bool Is(std::string_view op) const { return kind == TokenKind::kOperator && text == op; }
  bool IsWord(std::string_view word) const { return kind == TokenKind::kName && text == word; }
  // "')'", "end of line": for messages.
  std::string Describe() const;
};

// The last token is kEnd. Errors: EXPRESSION_INVALID at the character that fits nowhere, at the quote of a string
// that does not end, at a
// number that is none or too large for 64 bits.
// `open`, where given, becomes true where the text stops inside brackets or after a backslash.
absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, bool* open = nullptr);

}  // namespace tensord::expr
