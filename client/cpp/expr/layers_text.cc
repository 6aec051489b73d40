#include "client/cpp/expr/layers_text.h"

#include <utility>
#include <vector>

#include "client/cpp/expr/env.h"
#include "client/cpp/expr/models.h"
#include "client/cpp/expr/parser.h"
#include "client/cpp/expr/problem.h"
#include "client/cpp/expr/value.h"
#include "kernels/core/error.h"

namespace tensord::expr {
namespace {

class LayerReader {
 public:
  explicit LayerReader(std::string_view source) { env_.source = source; }

  absl::StatusOr<Value> Read(const Node& node) {
    switch (node.kind) {
      case NodeKind::kLiteral:
        if (const uint64_t* integer = std::get_if<uint64_t>(&node.literal)) {
          return *integer <= INT64_MAX ? Value(static_cast<int64_t>(*integer)) : Value(*integer);
        }
        if (const double* real = std::get_if<double>(&node.literal)) return Value(*real);
        if (const bool* b = std::get_if<bool>(&node.literal)) return Value(*b);
        if (const std::string* text = std::get_if<std::string>(&node.literal)) return Value(*text);
        return Value();
      case NodeKind::kUnary: {
        TENSORD_ASSIGN_OR_RETURN(const Value value, Read(*node.children[0]));
        if (node.text != "-" || !value.IsNumber()) return Refuse(node);
        Arithmetic negated = Negate(value);
        if (!negated.value) return Refuse(node);
        return *std::move(negated.value);
      }
      case NodeKind::kTuple:
      case NodeKind::kList: {
        std::vector<Value> items;
        for (const NodePtr& child : node.children) {
          TENSORD_ASSIGN_OR_RETURN(Value item, Read(*child));
          items.push_back(std::move(item));
        }
        return MakeList(std::move(items), node.kind == NodeKind::kTuple);
      }
      case NodeKind::kCall:
        return ReadCall(node);
      default:
        return Refuse(node);
    }
  }

 private:
  absl::Status Refuse(const Node& node) const {
    return ExpressionProblem(env_.source, node.offset,
                             "layers are written nn.NAME(…), with numbers, strings and tuples as arguments");
  }

  absl::StatusOr<Value> ReadCall(const Node& node) {
    const Node& callee = *node.children[0];
    const bool qualified = callee.kind == NodeKind::kAttribute && callee.children[0]->kind == NodeKind::kName &&
                           callee.children[0]->text == "nn";
    if (!qualified && callee.kind != NodeKind::kName) return Refuse(callee);
    Arguments arguments;
    for (size_t i = 1; i < node.children.size(); ++i) {
      TENSORD_ASSIGN_OR_RETURN(Value value, Read(*node.children[i]));
      arguments.positional.push_back(std::move(value));
    }
    for (const Keyword& keyword : node.keywords) {
      TENSORD_ASSIGN_OR_RETURN(Value value, Read(*keyword.value));
      arguments.keywords.emplace_back(keyword.name, std::move(value));
    }
    env_.offset = callee.offset;
    return MakeLayer(env_, callee.text, arguments);
  }

  Env env_;
};

}  // namespace

absl::StatusOr<Layer> ParseLayers(std::string_view text) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<Statement> statements, Parse(text));
  if (statements.size() != 1 || statements[0].kind != StatementKind::kExpression) {
    return ExpressionProblem(text, 0, "one expression is expected: nn.Sequential(…)");
  }
  TENSORD_ASSIGN_OR_RETURN(const Value value, LayerReader(text).Read(*statements[0].value));
  const LayersPtr* layers = value.As<LayersPtr>();
  if (layers == nullptr) return ExpressionProblem(text, 0, "layers are written nn.NAME(…)");
  return (*layers)->layer;
}

}  // namespace tensord::expr
