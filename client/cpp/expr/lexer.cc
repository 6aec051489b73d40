#include "client/cpp/expr/lexer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>

#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsWordPart(char c) { return IsLetter(c) || IsDigit(c); }

// Longest first, so that the first match is the right one.
constexpr std::array<std::string_view, 45> kOperators = {
    "...", "**=", "//=", "<<=", ">>=", "**", "//", "<<", ">>", "<=", ">=", "==", "!=", "->", ":=",
    "+=",  "-=",  "*=",  "/=",  "%=",  "@=", "&=", "|=", "^=", "(",  ")",  "[",  "]",  "{",  "}",
    ",",   ":",   ".",   ";",   "=",   "+",  "-",  "*",  "/",  "%",  "@",  "&",  "|",  "^",  "~"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (true) {
      SkipBlanks();
      if (at_ >= source_.size()) break;
      TENSORD_RETURN_IF_ERROR(Next());
    }
    if (tokens_.empty() || tokens_.back().kind != TokenKind::kNewline) Push(TokenKind::kNewline, at_, at_);
    Push(TokenKind::kEnd, at_, at_);
    return std::move(tokens_);
  }

  bool open() const { return depth_ > 0 || continued_; }

 private:
  char Peek(size_t ahead = 0) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  void SkipBlanks() {
    while (at_ < source_.size()) {
      const char c = source_[at_];
      if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && depth_ > 0)) {
        ++at_;
      } else if (c == '#') {
        while (at_ < source_.size() && source_[at_] != '\n') ++at_;
      } else if (c == '\\' && (Peek(1) == '\n' || at_ + 1 == source_.size())) {
        continued_ = at_ + 2 >= source_.size();
        at_ = std::min(at_ + 2, source_.size());
      } else {
        return;
      }
    }
  }

  Token& Push(TokenKind kind, size_t from, size_t to) {
    Token& token = tokens_.emplace_back();
    token.kind = kind;
    token.offset = from;
    token.end = to;
    return token;
  }

  absl::Status Next() {
    const char c = source_[at_];
    if (c == '\n') {
      Push(TokenKind::kNewline, at_, at_ + 1);
      ++at_;
      return absl::OkStatus();
    }
    if (IsDigit(c) || (c == '.' && IsDigit(Peek(1)))) return Number();
    if (IsLetter(c)) {
      const size_t from = at_;
      while (IsWordPart(Peek())) ++at_;
      if (Peek() == '"' || Peek() == '\'') {
        return SyntaxProblem(source_, from, "a plain string",
                             StrCat("a string with the prefix ", source_.substr(from, at_ - from)));
      }
      Push(TokenKind::kName, from, at_).text = std::string(source_.substr(from, at_ - from));
      return absl::OkStatus();
    }
    if (c == '"' || c == '\'') return String(c);
    for (const std::string_view op : kOperators) {
      if (!source_.substr(at_).starts_with(op)) continue;
      return Operator(op);
    }
    if (c == '<' || c == '>') return Operator(c == '<' ? "<" : ">");
    return ExpressionProblem(source_, at_, StrCat("no expression has the character ", CharacterText(), " here"));
  }

  absl::Status Operator(std::string_view op) {
    if (op == "(" || op == "[" || op == "{") ++depth_;
    if ((op == ")" || op == "]" || op == "}") && depth_ > 0) --depth_;
    Push(TokenKind::kOperator, at_, at_ + op.size()).text = std::string(op);
    at_ += op.size();
    return absl::OkStatus();
  }

  // The code point at hand in quotes; bytes that are none as \xNN.
  std::string CharacterText() const {
    const auto byte = static_cast<unsigned char>(source_[at_]);
    const size_t length = byte < 0x80 ? 1 : (byte >> 5) == 6 ? 2 : (byte >> 4) == 14 ? 3 : (byte >> 3) == 30 ? 4 : 0;
    bool valid = length > 0 && byte >= 0x20 && byte != 0x7f && at_ + length <= source_.size();
    for (size_t i = 1; valid && i < length; ++i) valid = (static_cast<unsigned char>(source_[at_ + i]) & 0xC0) == 0x80;
    if (valid) return StrCat("'", source_.substr(at_, length), "'");
    constexpr std::string_view kHex = "0123456789abcdef";
    return StrCat("'\\x", kHex.substr(byte >> 4, 1), kHex.substr(byte & 15, 1), "'");
  }

  // Digits of a base with single underscores between them, without these; empty where there are none.
  std::string Digits(int base) {
    std::string digits;
    const auto is_digit = [base](char c) {
      if (base == 16) return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      return c >= '0' && c < '0' + base;
    };
    while (is_digit(Peek()) || (Peek() == '_' && !digits.empty() && is_digit(Peek(1)))) {
      if (Peek() != '_') digits.push_back(Peek());
      ++at_;
    }
    return digits;
  }

  absl::Status Number() {
    const size_t from = at_;
    int base = 10;
    if (Peek() == '0') {
      const char mark = static_cast<char>(Peek(1) | 0x20);
      base = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 10;
    }
    if (base != 10) at_ += 2;
    std::string text = Digits(base);
    bool real = false;
    if (base == 10) {
      if (Peek() == '.') {
        real = true;
        ++at_;
        text += "." + Digits(10);
      }
      if ((Peek() | 0x20) == 'e') {
        const size_t sign = (Peek(1) == '+' || Peek(1) == '-') ? 1 : 0;
        if (IsDigit(Peek(1 + sign))) {
          real = true;
          text += 'e';
          if (sign == 1 && Peek(1) == '-') text += '-';
          at_ += 1 + sign;
          text += Digits(10);
        }
      }
    }
    if (text.empty() || IsWordPart(Peek())) {
      while (IsWordPart(Peek())) ++at_;
      const std::string_view all = source_.substr(from, at_ - from);
      const std::string why = all.ends_with('j') || all.ends_with('J') ? " (complex numbers are not offered)" : "";
      return ExpressionProblem(source_, from, StrCat(all, " is no number", why));
    }
    return real ? Real(from, text) : Integer(from, text, base);
  }

  absl::Status Real(size_t from, std::string text) {
    if (text.front() == '.') text.insert(text.begin(), '0');
    double value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    if (result.ec == std::errc::result_out_of_range) {
      // As in Python: too large is infinite, too small is zero.
      const size_t e = text.find('e');
      const bool small = e != std::string::npos && text[e + 1] == '-';
      value = small ? 0.0 : HUGE_VAL;
    }
    Push(TokenKind::kReal, from, at_).real = value;
    return absl::OkStatus();
  }

  absl::Status Integer(size_t from, const std::string& text, int base) {
    uint64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (result.ec != std::errc()) {
      return ExpressionProblem(source_, from, "the integer is too large: 18446744073709551615 is the largest");
    }
    if (base == 10 && text.size() > 1 && text.front() == '0' && value != 0) {
      return ExpressionProblem(source_, from, "a decimal integer does not begin with 0 (octal is 0o17)");
    }
    Push(TokenKind::kInteger, from, at_).integer = value;
    return absl::OkStatus();
  }

  absl::Status String(char quote) {
    const size_t from = at_++;
    if (Peek() == quote && Peek(1) == quote)
      return SyntaxProblem(source_, from, "a string in single quotes", "a triple quote");
    std::string value;
    while (true) {
      if (at_ >= source_.size() || Peek() == '\n')
        return ExpressionProblem(source_, from, "the string has no end on its line");
      char c = source_[at_++];
      if (c == quote) break;
      if (c == '\\') {
        const std::optional<char> escaped = Escape();
        if (!escaped)
          return ExpressionProblem(source_, at_ - 1, "no such escape; there are \\\\ \\' \\\" \\n \\t \\r \\0 \\xNN");
        c = *escaped;
      }
      value.push_back(c);
    }
    Push(TokenKind::kString, from, at_).text = std::move(value);
    return absl::OkStatus();
  }

  std::optional<char> Escape() {
    const char c = Peek();
    switch (c) {
      case '\\':
      case '\'':
      case '"':
        ++at_;
        return c;
      case 'n':
        ++at_;
        return '\n';
      case 't':
        ++at_;
        return '\t';
      case 'r':
        ++at_;
        return '\r';
      case '0':
        ++at_;
        return '\0';
      case 'x': {
        if (at_ + 3 > source_.size()) return std::nullopt;
        unsigned value = 0;
        const char* digits = source_.data() + at_ + 1;
        if (std::from_chars(digits, digits + 2, value, 16).ptr != digits + 2) return std::nullopt;
        at_ += 3;
        return static_cast<char>(value);
      }
      default:
        return std::nullopt;
    }
  }

  std::string_view source_;
  size_t at_ = 0;
  int depth_ = 0;
  bool continued_ = false;
  std::vector<Token> tokens_;
};

}  // namespace

std::string Token::Describe() const {
  switch (kind) {
    case TokenKind::kName:
      return StrCat("'", text, "'");
    case TokenKind::kInteger:
      return StrCat("the number ", integer);
    case TokenKind::kReal:
      return StrCat("the number ", real);
    case TokenKind::kString:
      return "a string";
    case TokenKind::kOperator:
      return StrCat("'", text, "'");
    case TokenKind::kNewline:
    case TokenKind::kEnd:
      return "end of line";
  }
  return "";
}

absl::StatusOr<std::vector<Token>> Tokenize(std::string_view source, bool* open) {
  Lexer lexer(source);
  absl::StatusOr<std::vector<Token>> tokens = lexer.Run();
  if (open != nullptr) *open = lexer.open();
  return tokens;
}

}  // namespace tensord::expr
