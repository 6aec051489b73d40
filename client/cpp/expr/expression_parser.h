// The expression half of the parser: precedence climbing over a list of tokens. parser.cc adds statements.
//
// Private to this folder: include parser.h.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/ast.h"
#include "client/cpp/expr/lexer.h"
#include "client/cpp/expr/problem.h"
#include "kernels/core/error.h"

namespace tensord::expr {

class ExpressionParser {
 public:
  ExpressionParser(std::string_view source, std::vector<Token> tokens) : source_(source), tokens_(std::move(tokens)) {}

  // a, b is a tuple without parentheses.
  absl::StatusOr<NodePtr> ParseExpressionList();

 protected:
  const Token& Now() const { return tokens_[at_]; }
  const Token& After() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  bool Accept(std::string_view op) {
    if (!Now().Is(op)) return false;
    ++at_;
    return true;
  }
  absl::Status Expected(std::string_view what) const {
    return SyntaxProblem(source_, Now().offset, what, Now().Describe());
  }
  absl::Status Expect(std::string_view op) {
    if (Accept(op)) return absl::OkStatus();
    return Expected(StrCat("'", op, "'"));
  }
  // A node over children, with its depth and height.
  absl::StatusOr<NodePtr> Make(NodeKind kind, size_t offset, std::string text, std::vector<NodePtr> children);
  absl::Status SetDepth(Node& node);
  absl::Status TooDeep(size_t offset) const;
  template <class... T>
  static std::vector<NodePtr> List(T... nodes) {
    std::vector<NodePtr> list;
    (list.push_back(std::move(nodes)), ...);
    return list;
  }
  absl::StatusOr<NodePtr> ParseExpression();
  absl::StatusOr<NodePtr> ParseOr();
  absl::StatusOr<NodePtr> ParseAnd();
  absl::StatusOr<NodePtr> ParseNot();
  // The comparison at hand, consumed; empty where there is none.
  std::string ComparisonOperator();
  absl::StatusOr<NodePtr> ParseComparison();
  absl::StatusOr<NodePtr> ParseBinary(size_t level);
  absl::StatusOr<NodePtr> ParseFactor();
  absl::StatusOr<NodePtr> ParsePostfix();
  absl::StatusOr<NodePtr> ParseCall(NodePtr callee);
  absl::StatusOr<NodePtr> ParseSubscript(NodePtr value);
  absl::StatusOr<NodePtr> ParseSubscriptPart();
  absl::StatusOr<NodePtr> MakeLiteral(size_t offset, Literal literal);
  absl::StatusOr<NodePtr> ParseAtom();
  absl::StatusOr<NodePtr> ParseWord(const Token& token);
  // (a) is a, (a,) and () are tuples.
  absl::StatusOr<NodePtr> ParseParenthesis();
  absl::StatusOr<NodePtr> ParseList();

  std::string_view source_;
  std::vector<Token> tokens_;
  size_t at_ = 0;
  uint32_t nesting_ = 0;
};

}  // namespace tensord::expr
