// What the parser makes: a tree for each statement. Plain data.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace tensord::expr {

enum class NodeKind : uint8_t {
  kLiteral,    // literal
  kName,       // text
  kList,       // children
  kTuple,      // children
  kUnary,      // text (+ - ~ not), 1 child
  kBinary,     // text (+ - * / // % ** @ & | ^ << >>), 2 children
  kCompare,    // operators, one more child than those: a < b < c
  kAnd,        // 2 children
  kOr,         // 2 children
  kCall,       // children[0] is what is called, the rest are positional arguments; keywords
  kAttribute,  // text, 1 child
  kSubscript,  // children[0] is what is indexed, the rest are the parts between commas
  kSlice,      // 3 children, each may be null
  kEllipsis,
};

struct NoneLiteral {
  bool operator==(const NoneLiteral&) const = default;
};
using Literal = std::variant<NoneLiteral, bool, uint64_t, double, std::string>;

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Keyword {
  std::string name;
  size_t offset = 0;
  NodePtr value;
};

struct Node {
  NodeKind kind = NodeKind::kLiteral;
  size_t offset = 0;    // where errors about it point: its operator, or its first character
  uint32_t depth = 1;   // levels of nesting; a chain of left-associative operators is one
  uint32_t height = 1;  // nodes on the longest way down
  std::string text;
  Literal literal;
  std::vector<std::string> operators;
  std::vector<NodePtr> children;
  std::vector<Keyword> keywords;
};

enum class StatementKind : uint8_t {
  kExpression,  // value
  kAssign,      // targets = value: names, or one tuple of names
  kDelete,      // targets
  kImport,      // does nothing: the modules that Python users import are built in
};

struct Statement {
  StatementKind kind = StatementKind::kExpression;
  size_t offset = 0;
  // Names with their places. For kAssign each entry is one `=` from the left, and has several names where it is a
  // tuple.
  struct Target {
    std::vector<std::string> names;
    std::vector<size_t> offsets;
    bool tuple = false;
  };
  std::vector<Target> targets;
  NodePtr value;
};

}  // namespace tensord::expr
