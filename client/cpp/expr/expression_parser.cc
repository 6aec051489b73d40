#include "client/cpp/expr/expression_parser.h"

#include <array>

#include "client/cpp/expr/parser.h"

namespace tensord::expr {
namespace {

struct Level {
  std::array<std::string_view, 5> operators;
};
// Binary operators from loose to tight, all left associative.
constexpr std::array<Level, 6> kLevels = {
    {{{"|"}}, {{"^"}}, {{"&"}}, {{"<<", ">>"}}, {{"+", "-"}}, {{"*", "/", "//", "%", "@"}}}};

// Kinds whose left operand is evaluated in a loop, not by recursion.
bool IsChain(NodeKind kind) { return kind == NodeKind::kBinary || kind == NodeKind::kAnd || kind == NodeKind::kOr; }

}  // namespace

absl::StatusOr<NodePtr> ExpressionParser::Make(NodeKind kind, size_t offset, std::string text,
                                               std::vector<NodePtr> children) {
  auto node = std::make_unique<Node>();
  node->kind = kind;
  node->offset = offset;
  node->text = std::move(text);
  node->children = std::move(children);
  TENSORD_RETURN_IF_ERROR(SetDepth(*node));
  return node;
}

absl::Status ExpressionParser::SetDepth(Node& node) {
  const auto add = [&node](const Node& child, uint32_t levels) {
    node.depth = std::max(node.depth, child.depth + levels);
    node.height = std::max(node.height, child.height + 1);
  };
  const bool chain = IsChain(node.kind);
  for (size_t i = 0; i < node.children.size(); ++i) {
    if (node.children[i]) add(*node.children[i], chain && i == 0 && IsChain(node.children[i]->kind) ? 0 : 1);
  }
  for (const Keyword& keyword : node.keywords) add(*keyword.value, 1);
  if (node.depth > kMaxDepth) return TooDeep(node.offset);
  if (node.height > kMaxHeight) {
    return ExpressionProblem(source_, node.offset,
                             StrCat("more than ", kMaxHeight, " operators in a row; use names for parts"));
  }
  return absl::OkStatus();
}

absl::Status ExpressionParser::TooDeep(size_t offset) const {
  return ExpressionProblem(source_, offset, StrCat("nested deeper than ", kMaxDepth, " levels; use names for parts"));
}

absl::StatusOr<NodePtr> ExpressionParser::ParseExpressionList() {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseExpression() {
  if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
  absl::StatusOr<NodePtr> node = ParseOr();
  --nesting_;
  if (!node.ok()) return node;
  for (const std::string_view word : {"if", "for", "in"}) {
    if (Now().IsWord(word))
      return ExpressionProblem(source_, Now().offset, StrCat("'", word, "' is not offered in expressions"));
  }
  return node;
}

absl::StatusOr<NodePtr> ExpressionParser::ParseOr() {
  TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseAnd());
  while (Now().IsWord("or")) {
    const size_t offset = tokens_[at_++].offset;
    TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseAnd());
    TENSORD_ASSIGN_OR_RETURN(left, Make(NodeKind::kOr, offset, "or", List(std::move(left), std::move(right))));
  }
  return left;
}

absl::StatusOr<NodePtr> ExpressionParser::ParseAnd() {
  TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseNot());
  while (Now().IsWord("and")) {
    const size_t offset = tokens_[at_++].offset;
    TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseNot());
    TENSORD_ASSIGN_OR_RETURN(left, Make(NodeKind::kAnd, offset, "and", List(std::move(left), std::move(right))));
  }
  return left;
}

absl::StatusOr<NodePtr> ExpressionParser::ParseNot() {
  if (!Now().IsWord("not")) return ParseComparison();
  if (++nesting_ > kMaxDepth) return TooDeep(Now().offset);
  const size_t offset = tokens_[at_++].offset;
  absl::StatusOr<NodePtr> operand = ParseNot();
  --nesting_;
  if (!operand.ok()) return operand;
  return Make(NodeKind::kUnary, offset, "not", List(*std::move(operand)));
}

std::string ExpressionParser::ComparisonOperator() {
  for (const std::string_view op : {"==", "!=", "<=", ">=", "<", ">"}) {
    if (Accept(op)) return std::string(op);
  }
  if (!Now().IsWord("is")) return "";
  ++at_;
  if (!Now().IsWord("not")) return "is";
  ++at_;
  return "is not";
}

absl::StatusOr<NodePtr> ExpressionParser::ParseComparison() {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseBinary(size_t level) {
  if (level == kLevels.size()) return ParseFactor();
  TENSORD_ASSIGN_OR_RETURN(NodePtr left, ParseBinary(level + 1));
  while (Now().kind == TokenKind::kOperator) {
    const auto& operators = kLevels[level].operators;
    const auto op = std::find(operators.begin(), operators.end(), std::string_view(Now().text));
    if (op == operators.end()) break;
    const size_t offset = tokens_[at_++].offset;
    TENSORD_ASSIGN_OR_RETURN(NodePtr right, ParseBinary(level + 1));
    TENSORD_ASSIGN_OR_RETURN(
        left, Make(NodeKind::kBinary, offset, std::string(*op), List(std::move(left), std::move(right))));
  }
  return left;
}

absl::StatusOr<NodePtr> ExpressionParser::ParseFactor() {
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

absl::StatusOr<NodePtr> ExpressionParser::ParsePostfix() {
  TENSORD_ASSIGN_OR_RETURN(NodePtr node, ParseAtom());
  while (true) {
    if (Now().Is("(")) {
      TENSORD_ASSIGN_OR_RETURN(node, ParseCall(std::move(node)));
    } else if (Now().Is("[")) {
      TENSORD_ASSIGN_OR_RETURN(node, ParseSubscript(std::move(node)));
    } else if (Now().Is(".")) {
      ++at_;
      if (Now().kind != TokenKind::kName || IsReserved(Now().text))
        return Expected("the name of an attribute or method");
      const Token name = tokens_[at_++];
      TENSORD_ASSIGN_OR_RETURN(node, Make(NodeKind::kAttribute, name.offset, name.text, List(std::move(node))));
    } else {
      return node;
    }
  }
}

absl::StatusOr<NodePtr> ExpressionParser::ParseCall(NodePtr callee) {
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
        if (other.name == keyword.name)
          return ExpressionProblem(source_, Now().offset, StrCat(keyword.name, " is given twice"));
      }
      at_ += 2;
      TENSORD_ASSIGN_OR_RETURN(keyword.value, ParseExpression());
      keywords.push_back(std::move(keyword));
    } else {
      const size_t place = Now().offset;
      TENSORD_ASSIGN_OR_RETURN(NodePtr argument, ParseExpression());
      if (!keywords.empty())
        return ExpressionProblem(source_, place, "a positional argument follows a keyword argument");
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

absl::StatusOr<NodePtr> ExpressionParser::ParseSubscript(NodePtr value) {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseSubscriptPart() {
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

absl::StatusOr<NodePtr> ExpressionParser::MakeLiteral(size_t offset, Literal literal) {
  TENSORD_ASSIGN_OR_RETURN(NodePtr node, Make(NodeKind::kLiteral, offset, "", {}));
  node->literal = std::move(literal);
  return node;
}

absl::StatusOr<NodePtr> ExpressionParser::ParseAtom() {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseWord(const Token& token) {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseParenthesis() {
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

absl::StatusOr<NodePtr> ExpressionParser::ParseList() {
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

}  // namespace tensord::expr
