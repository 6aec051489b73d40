#include "client/cpp/expr/parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/expression_parser.h"
#include "client/cpp/expr/lexer.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

constexpr std::array<std::string_view, 35> kReserved = {
    "False",  "None",     "True", "and",    "as",   "assert", "async",   "await",  "break", "class",  "continue", "def",
    "del",    "elif",     "else", "except", "for",  "from",   "finally", "global", "if",    "import", "in",       "is",
    "lambda", "nonlocal", "not",  "or",     "pass", "raise",  "return",  "try",    "while", "with",   "yield"};

// Modules that Python sessions import; their names are there without it.
constexpr std::array<std::string_view, 3> kModules = {"torch", "tensord", "numpy"};

class Parser : private ExpressionParser {
 public:
  using ExpressionParser::ExpressionParser;

  absl::StatusOr<std::vector<Statement>> Run() {
    std::vector<Statement> statements;
    while (true) {
      while (Now().kind == TokenKind::kNewline || Now().Is(";")) ++at_;
      if (Now().kind == TokenKind::kEnd) return statements;
      TENSORD_ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      statements.push_back(std::move(statement));
      if (Now().kind != TokenKind::kNewline && !Now().Is(";"))
        return Expected("an operator or the end of the statement");
    }
  }

  // After Run: whether nothing but the end was left.
  bool AtEnd() const { return Now().kind == TokenKind::kEnd || After().kind == TokenKind::kEnd; }

 private:
  absl::StatusOr<Statement> ParseStatement() {
    Statement statement;
    statement.offset = Now().offset;
    if (Now().IsWord("import") || Now().IsWord("from")) return ParseImport(std::move(statement));
    if (Now().IsWord("del")) return ParseDelete(std::move(statement));
    if (Now().kind == TokenKind::kName && IsReserved(Now().text)) {
      TENSORD_RETURN_IF_ERROR(RefuseStatementWord());
    }
    const size_t begin = Now().offset;
    TENSORD_ASSIGN_OR_RETURN(NodePtr value, ParseExpressionList());
    if (IsAugmented(Now())) return ParseAugmented(std::move(statement), std::move(value), begin);
    while (Now().Is("=")) {
      const size_t equals = Now().offset;
      ++at_;
      TENSORD_ASSIGN_OR_RETURN(Statement::Target target, ToTarget(*value, equals));
      statement.kind = StatementKind::kAssign;
      statement.targets.push_back(std::move(target));
      TENSORD_ASSIGN_OR_RETURN(value, ParseExpressionList());
    }
    if (Now().Is(":="))
      return ExpressionProblem(source_, Now().offset, "assignment is a statement here: write NAME = value");
    statement.value = std::move(value);
    return statement;
  }

  absl::Status RefuseStatementWord() const {
    const std::string& word = Now().text;
    if (word == "True" || word == "False" || word == "None" || word == "not" || word == "lambda")
      return absl::OkStatus();
    return ExpressionProblem(source_, Now().offset,
                             StrCat("'", word, "' is not offered: a statement is an expression, an assignment or del"));
  }

  absl::StatusOr<Statement> ParseImport(Statement statement) {
    statement.kind = StatementKind::kImport;
    ++at_;
    const Token module = Now();
    if (module.kind != TokenKind::kName || std::find(kModules.begin(), kModules.end(), module.text) == kModules.end()) {
      return SyntaxProblem(source_, module.offset, "torch, tensord or numpy (everything is built in)",
                           module.Describe());
    }
    while (Now().kind != TokenKind::kNewline && !Now().Is(";")) ++at_;
    return statement;
  }

  absl::StatusOr<Statement> ParseDelete(Statement statement) {
    statement.kind = StatementKind::kDelete;
    ++at_;
    do {
      if (Now().kind != TokenKind::kName || IsReserved(Now().text)) return Expected("a name");
      Statement::Target& target = statement.targets.emplace_back();
      target.names.push_back(Now().text);
      target.offsets.push_back(Now().offset);
      ++at_;
      if (Now().Is("[") || Now().Is("."))
        return Expected("',' or the end of the statement (only names can be deleted)");
    } while (Accept(","));
    return statement;
  }

  static bool IsAugmented(const Token& token) {
    return token.kind == TokenKind::kOperator && token.text.size() >= 2 && token.text.back() == '=' &&
           token.text != "==" && token.text != "!=" && token.text != "<=" && token.text != ">=" && token.text != ":=";
  }

  // X += 1 is X = X + 1: tensors do not change.
  absl::StatusOr<Statement> ParseAugmented(Statement statement, NodePtr left, size_t begin) {
    const Token op = Now();
    ++at_;
    TENSORD_ASSIGN_OR_RETURN(Statement::Target target, ToTarget(*left, op.offset));
    if (target.tuple) return SyntaxProblem(source_, begin, StrCat("one name before ", op.text), "a tuple");
    TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseExpressionList());
    statement.kind = StatementKind::kAssign;
    statement.targets.push_back(std::move(target));
    TENSORD_ASSIGN_OR_RETURN(statement.value, Make(NodeKind::kBinary, op.offset, op.text.substr(0, op.text.size() - 1),
                                                   List(std::move(left), std::move(right))));
    return statement;
  }

  absl::StatusOr<Statement::Target> ToTarget(const Node& node, size_t equals) const {
    Statement::Target target;
    const auto add = [&](const Node& name) -> absl::Status {
      if (name.kind == NodeKind::kName) {
        target.names.push_back(name.text);
        target.offsets.push_back(name.offset);
        return absl::OkStatus();
      }
      if (name.kind == NodeKind::kSubscript || name.kind == NodeKind::kAttribute) {
        return ExpressionProblem(source_, equals,
                                 "tensors are immutable: make a new one (where, concat, +) and assign that to a name");
      }
      return ExpressionProblem(source_, equals, "only a name can stand left of =");
    };
    if (node.kind != NodeKind::kTuple) {
      TENSORD_RETURN_IF_ERROR(add(node));
      return target;
    }
    target.tuple = true;
    for (const NodePtr& child : node.children) TENSORD_RETURN_IF_ERROR(add(*child));
    return target;
  }
};

}  // namespace

absl::StatusOr<std::vector<Statement>> Parse(std::string_view source) {
  TENSORD_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(source, std::move(tokens)).Run();
}

bool NeedsMoreLines(std::string_view source) {
  bool open = false;
  absl::StatusOr<std::vector<Token>> tokens = Tokenize(source, &open);
  if (!tokens.ok() || !open) return false;
  Parser parser(source, *std::move(tokens));
  const absl::Status status = parser.Run().status();
  // What is wrong before the end stays wrong, whatever follows.
  return status.ok() || (parser.AtEnd() && DetailsOf(status).Get("found") == Token().Describe());
}

bool IsReserved(std::string_view word) {
  return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end();
}

}  // namespace tensord::expr
