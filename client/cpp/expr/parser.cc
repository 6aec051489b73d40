#include "client/cpp/expr/parser.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/lexer.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

constexpr std::array<std::string_view, 35> kReserved = {
    "False", "None",   "True",  "and",    "as",   "assert", "async",  "await",    "break",  "class", "continue", "def",
    "del",   "elif",   "else",  "except", "for",  "from",   "finally", "global",  "if",     "import", "in",      "is",
    "lambda", "nonlocal", "not", "or",    "pass", "raise",  "return", "try",      "while",  "with",  "yield"};

// Modules that Python sessions import; their names are there without it.
constexpr std::array<std::string_view, 3> kModules = {"torch", "tensord", "numpy"};

struct Level {
  std::array<std::string_view, 5> operators;
};
// Binary operators from loose to tight, all left associative.
constexpr std::array<Level, 6> kLevels = {{{{"|"}}, {{"^"}}, {{"&"}}, {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "//", "%", "@"}}}};

class Parser {
 public:
  Parser(std::string_view source, std::vector<Token> tokens) : source_(source), tokens_(std::move(tokens)) {}

  absl::StatusOr<std::vector<Statement>> Run() {
    std::vector<Statement> statements;
    while (true) {
      while (Now().kind == TokenKind::kNewline || Now().Is(";")) ++at_;
      if (Now().kind == TokenKind::kEnd) return statements;
      TENSORD_ASSIGN_OR_RETURN(Statement statement, ParseStatement());
      statements.push_back(std::move(statement));
      if (Now().kind != TokenKind::kNewline && !Now().Is(";")) return Expected("an operator or the end of the statement");
    }
  }

 private:
  const Token& Now() const { return tokens_[at_]; }
  const Token& After() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool Accept(std::string_view op) {
    if (!Now().Is(op)) return false;
    ++at_;
    return true;
  }
  absl::Status Expected(std::string_view what) const { return SyntaxProblem(source_, Now().offset, what, Now().Describe()); }
  absl::Status Expect(std::string_view op) {
    if (Accept(op)) return absl::OkStatus();
    return Expected(StrCat("'", op, "'"));
  }

  // A node over children, with its depth.
  absl::StatusOr<NodePtr> Make(NodeKind kind, size_t offset, std::string text, std::vector<NodePtr> children) {
    auto node = std::make_unique<Node>();
    node->kind = kind;
    node->offset = offset;
    node->text = std::move(text);
    node->children = std::move(children);
    TENSORD_RETURN_IF_ERROR(SetDepth(*node));
    return node;
  }
  absl::Status SetDepth(Node& node) {
    for (const NodePtr& child : node.children) {
      if (child) node.depth = std::max(node.depth, child->depth + 1);
    }
    for (const Keyword& keyword : node.keywords) node.depth = std::max(node.depth, keyword.value->depth + 1);
    if (node.depth > kMaxDepth) return TooDeep(node.offset);
    return absl::OkStatus();
  }
  absl::Status TooDeep(size_t offset) const {
    return ExpressionProblem(source_, offset, StrCat("nested deeper than ", kMaxDepth, " levels; use names for parts"));
  }
  template <class... T>
  static std::vector<NodePtr> List(T... nodes) {
    std::vector<NodePtr> list;
    (list.push_back(std::move(nodes)), ...);
    return list;
  }

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
    if (Now().Is(":=")) return ExpressionProblem(source_, Now().offset, "assignment is a statement here: write NAME = value");
    statement.value = std::move(value);
    return statement;
  }

  absl::Status RefuseStatementWord() const {
    const std::string& word = Now().text;
    if (word == "True" || word == "False" || word == "None" || word == "not" || word == "lambda") return absl::OkStatus();
    return ExpressionProblem(source_, Now().offset,
                             StrCat("'", word, "' is not offered: a statement is an expression, an assignment or del"));
  }

  absl::StatusOr<Statement> ParseImport(Statement statement) {
    statement.kind = StatementKind::kImport;
    ++at_;
    const Token module = Now();
    if (module.kind != TokenKind::kName || std::find(kModules.begin(), kModules.end(), module.text) == kModules.end()) {
      return SyntaxProblem(source_, module.offset, "torch, tensord or numpy (everything is built in)", module.Describe());
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
      if (Now().Is("[") || Now().Is(".")) return Expected("',' or the end of the statement (only names can be deleted)");
    } while (Accept(","));
    return statement;
  }

  static bool IsAugmented(const Token& token) {
    return token.kind == TokenKind::kOperator && token.text.size() >= 2 && token.text.back() == '=' && token.text != "==" &&
           token.text != "!=" && token.text != "<=" && token.text != ">=" && token.text != ":=";
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
        return ExpressionProblem(source_, equals, "tensors are immutable: make a new one (where, concat, +) and assign that to a name");
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

  // a, b is a tuple without parentheses.
  absl::StatusOr<NodePtr> ParseExpressionList() {
    const size_t offset = Now().offset;
    TENSORD_ASSIGN_OR_RETURN(NodePtr first, ParseExpression());
    if (!Now().Is(",")) return first;
    std::vector<NodePtr> items = List(std::move(first));
    while (Accept(",")) {
      if (Now().kind == TokenKind::kNewline || Now().Is(";") || Now().Is("=")) break;
      TENSORD_ASSIGN_OR_RETURN(NodePtr next, ParseExpression());
      items.push_back(std::move(next));
    }
    return Make(NodeKind::kTuple, offset, "", std::move(items));
  }

  absl::StatusOr<NodePtr> ParseExpression() {
    if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
    absl::StatusOr<NodePtr> node = ParseOr();
    --nesting_;
    if (!node.ok()) return node;
    for (const std::string_view word : {"if", "for", "in"}) {
      if (Now().IsWord(word)) return ExpressionProblem(source_, Now().offset, StrCat("'", word, "' is not offered in expressions"));
    }
    return node;
  }

  absl::StatusOr<NodePtr> ParseOr() {
    TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseAnd());
    while (Now().IsWord("or")) {
      const size_t offset = tokens_[at_++].offset;
      TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseAnd());
      TENSORD_ASSIGN_OR_RETURN(left, Make(NodeKind::kOr, offset, "or", List(std::move(left), std::move(right))));
    }
    return left;
  }

  absl::StatusOr<NodePtr> ParseAnd() {
    TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseNot());
    while (Now().IsWord("and")) {
      const size_t offset = tokens_[at_++].offset;
      TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseNot());
      TENSORD_ASSIGN_OR_RETURN(left, Make(NodeKind::kAnd, offset, "and", List(std::move(left), std::move(right))));
    }
    return left;
  }

  absl::StatusOr<NodePtr> ParseNot() {
    if (!Now().IsWord("not")) return ParseComparison();
    if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
    const size_t offset = tokens_[at_++].offset;
    absl::StatusOr<NodePtr> operand = ParseNot();
    --nesting_;
    if (!operand.ok()) return operand;
    return Make(NodeKind::kUnary, offset, "not", List(*std::move(operand)));
  }

  // The comparison at hand, consumed; empty where there is none.
  std::string ComparisonOperator() {
    for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (Accept(op)) return std::string(op);
    }
    if (!Now().IsWord("is")) return "";
    ++at_;
    if (!Now().IsWord("not")) return "is";
    ++at_;
    return "is not";
  }

  absl::StatusOr<NodePtr> ParseComparison() {
    TENSORD_ASSIGN_OR_RETURN(NodePtr first, ParseBinary(0));
    std::vector<std::string> operators;
    std::vector<NodePtr> operands = List(std::move(first));
    size_t offset = Now().offset;
    for (std::string op = ComparisonOperator(); !op.empty(); op = ComparisonOperator()) {
      operators.push_back(std::move(op));
      TENSORD_ASSIGN_OR_RETURN(NodePtr next, ParseBinary(0));
      operands.push_back(std::move(next));
    }
    if (operators.empty()) return std::move(operands.front());
    TENSORD_ASSIGN_OR_RETURN(NodePtr node, Make(NodeKind::kCompare, offset, "", std::move(operands)));
    node->operators = std::move(operators);
    return node;
  }

  absl::StatusOr<NodePtr> ParseBinary(size_t level) {
    if (level == kLevels.size()) return ParseFactor();
    TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseBinary(level + 1));
    while (Now().kind == TokenKind::kOperator) {
      const auto& operators = kLevels[level].operators;
      const auto op = std::find(operators.begin(), operators.end(), std::string_view(Now().text));
      if (op == operators.end()) break;
      const size_t offset = tokens_[at_++].offset;
      TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseBinary(level + 1));
      TENSORD_ASSIGN_OR_RETURN(left, Make(NodeKind::kBinary, offset, std::string(*op), List(std::move(left), std::move(right))));
    }
    return left;
  }

  absl::StatusOr<NodePtr> ParseFactor() {
    for (const std::string_view op : {"-", "+", "~"}) {
      if (!Now().Is(op)) continue;
      if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
      const size_t offset = tokens_[at_++].offset;
      absl::StatusOr<NodePtr> operand = ParseFactor();
      --nesting_;
      if (!operand.ok()) return operand;
      return Make(NodeKind::kUnary, offset, std::string(op), List(*std::move(operand)));
    }
    TENSORD_ASSIGN_OR_RETURN(NodePtr base, ParsePostfix());
    if (!Now().Is("**")) return base;
    if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
    const size_t offset = tokens_[at_++].offset;
    absl::StatusOr<NodePtr> exponent = ParseFactor();  // right associative, and 2 ** -1 needs no parentheses
    --nesting_;
    if (!exponent.ok()) return exponent;
    return Make(NodeKind::kBinary, offset, "**", List(std::move(base), *std::move(exponent)));
  }

  absl::StatusOr<NodePtr> ParsePostfix() {
    TENSORD_ASSIGN_OR_RETURN(NodePtr node, ParseAtom());
    while (true) {
      if (Now().Is("(")) {
        TENSORD_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
      } else if (Now().Is("[")) {
        TENSORD_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
      } else if (Now().Is(".")) {
        ++at_;
        if (Now().kind != TokenKind::kName || IsReserved(Now().text)) return Expected("the name of an attribute or method");
        const Token name = tokens_[at_++];
        TENSORD_ASSIGN_OR_RETURN(node, Make(NodeKind::kAttribute, name.offset, name.text, List(std::move(node))));
      } else {
        return node;
      }
    }
  }

  absl::StatusOr<NodePtr> ParseCall(NodePtr callee) {
    const size_t offset = callee->offset;
    ++at_;
    std::vector<NodePtr> children = List(std::move(callee));
    std::vector<Keyword> keywords;
    while (!Now().Is(")")) {
      if (Now().Is("*") || Now().Is("**")) return Expected("an argument (unpacking is not offered)");
      if (Now().kind == TokenKind::kName && After().Is("=")) {
        Keyword keyword;
        keyword.name = Now().text;
        keyword.offset = Now().offset;
        for (const Keyword& other : keywords) {
          if (other.name == keyword.name) return ExpressionProblem(source_, Now().offset, StrCat(keyword.name, " is given twice"));
        }
        at_ += 2;
        TENSORD_ASSIGN_OR_RETURN(keyword.value, ParseExpression());
        keywords.push_back(std::move(keyword));
      } else {
        const size_t place = Now().offset;
        TENSORD_ASSIGN_OR_RETURN(NodePtr argument, ParseExpression());
        if (!keywords.empty()) return ExpressionProblem(source_, place, "a positional argument follows a keyword argument");
        children.push_back(std::move(argument));
      }
      if (!Accept(",") && !Now().Is(")")) return Expected("',' or ')'");
    }
    TENSORD_RETURN_IF_ERROR(Expect(")"));
    TENSORD_ASSIGN_OR_RETURN(NodePtr node, Make(NodeKind::kCall, offset, "", std::move(children)));
    node->keywords = std::move(keywords);
    TENSORD_RETURN_IF_ERROR(SetDepth(*node));
    return node;
  }

  absl::StatusOr<NodePtr> ParseSubscript(NodePtr value) {
    const size_t offset = Now().offset;
    ++at_;
    std::vector<NodePtr> children = List(std::move(value));
    if (Now().Is("]")) return Expected("an index");
    while (!Now().Is("]")) {
      TENSORD_ASSIGN_OR_RETURN(NodePtr part, ParseSubscriptPart());
      children.push_back(std::move(part));
      if (!Accept(",") && !Now().Is("]")) return Expected("',' or ']'");
    }
    TENSORD_RETURN_IF_ERROR(Expect("]"));
    return Make(NodeKind::kSubscript, offset, "", std::move(children));
  }

  absl::StatusOr<NodePtr> ParseSubscriptPart() {
    const size_t offset = Now().offset;
    const auto ends = [this] { return Now().Is(":") || Now().Is(",") || Now().Is("]"); };
    NodePtr start, stop, step;
    if (!ends()) {
      TENSORD_ASSIGN_OR_RETURN(start, ParseExpression());
      if (!Now().Is(":")) return start;
    }
    TENSORD_RETURN_IF_ERROR(Expect(":"));
    if (!ends()) {
      TENSORD_ASSIGN_OR_RETURN(stop, ParseExpression());
    }
    if (Accept(":") && !ends()) {
      TENSORD_ASSIGN_OR_RETURN(step, ParseExpression());
    }
    return Make(NodeKind::kSlice, offset, "", List(std::move(start), std::move(stop), std::move(step)));
  }

  absl::StatusOr<NodePtr> MakeLiteral(size_t offset, Literal literal) {
    TENSORD_ASSIGN_OR_RETURN(NodePtr node, Make(NodeKind::kLiteral, offset, "", {}));
    node->literal = std::move(literal);
    return node;
  }

  absl::StatusOr<NodePtr> ParseAtom() {
    const Token token = Now();
    switch (token.kind) {
      case TokenKind::kInteger:
        ++at_;
        return MakeLiteral(token.offset, token.integer);
      case TokenKind::kReal:
        ++at_;
        return MakeLiteral(token.offset, token.real);
      case TokenKind::kString: {
        std::string text;
        while (Now().kind == TokenKind::kString) text += tokens_[at_++].text;  // neighbours join, as in Python
        return MakeLiteral(token.offset, std::move(text));
      }
      case TokenKind::kName:
        return ParseWord(token);
      case TokenKind::kOperator:
        if (token.text == "(") return ParseParenthesis();
        if (token.text == "[") return ParseList();
        if (token.text == "...") {
          ++at_;
          return Make(NodeKind::kEllipsis, token.offset, "", {});
        }
        if (token.text == "{") return ExpressionProblem(source_, token.offset, "sets and dictionaries are not offered");
        break;
      default:
        break;
    }
    return Expected("an expression");
  }

  absl::StatusOr<NodePtr> ParseWord(const Token& token) {
    if (token.text == "True" || token.text == "False") {
      ++at_;
      return MakeLiteral(token.offset, token.text == "True");
    }
    if (token.text == "None") {
      ++at_;
      return MakeLiteral(token.offset, NoneLiteral{});
    }
    if (token.text == "lambda") return ExpressionProblem(source_, token.offset, "'lambda' is not offered");
    if (IsReserved(token.text)) return Expected("an expression");
    ++at_;
    return Make(NodeKind::kName, token.offset, token.text, {});
  }

  // (a) is a, (a,) and () are tuples.
  absl::StatusOr<NodePtr> ParseParenthesis() {
    const size_t offset = tokens_[at_++].offset;
    std::vector<NodePtr> items;
    bool comma = false;
    while (!Now().Is(")")) {
      TENSORD_ASSIGN_OR_RETURN(NodePtr item, ParseExpression());
      items.push_back(std::move(item));
      if (!Accept(",")) {
        comma = false;
        if (!Now().Is(")")) return Expected(items.size() == 1 ? "')'" : "',' or ')'");
      } else {
        comma = true;
      }
    }
    TENSORD_RETURN_IF_ERROR(Expect(")"));
    if (items.size() == 1 && !comma) return std::move(items.front());
    return Make(NodeKind::kTuple, offset, "", std::move(items));
  }

  absl::StatusOr<NodePtr> ParseList() {
    const size_t offset = tokens_[at_++].offset;
    std::vector<NodePtr> items;
    while (!Now().Is("]")) {
      TENSORD_ASSIGN_OR_RETURN(NodePtr item, ParseExpression());
      items.push_back(std::move(item));
      if (!Accept(",") && !Now().Is("]")) return Expected("',' or ']'");
    }
    TENSORD_RETURN_IF_ERROR(Expect("]"));
    return Make(NodeKind::kList, offset, "", std::move(items));
  }

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<Statement>> Parse(std::string_view source) {
  TENSORD_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(source, std::move(tokens)).Run();
}

bool IsReserved(std::string_view word) { return std::find(kReserved.begin(), kReserved.end(), word) != kReserved.end(); }

}  // namespace tensord::expr
