// Expressions of the evaluator: one function a kind of node.
#include <algorithm>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/evaluator.h"
#include "client/cpp/expr/functions.h"
#include "client/cpp/expr/index.h"
#include "client/cpp/expr/models.h"
#include "client/cpp/expr/names.h"
#include "client/cpp/expr/operators.h"

namespace tensord::expr {

absl::StatusOr<Value> Evaluator::Evaluate(const Node& node) {
  switch (node.kind) {
    case NodeKind::kLiteral:
      if (const uint64_t* integer = std::get_if<uint64_t>(&node.literal)) {
        return *integer <= INT64_MAX ? Value(static_cast<int64_t>(*integer)) : Value(*integer);
      }
      if (const double* real = std::get_if<double>(&node.literal)) return Value(*real);
      if (const bool* b = std::get_if<bool>(&node.literal)) return Value(*b);
      if (const std::string* text = std::get_if<std::string>(&node.literal)) return Value(*text);
      return Value();
    case NodeKind::kName:
      return EvaluateName(node);
    case NodeKind::kList:
    case NodeKind::kTuple: {
      TENSORD_ASSIGN_OR_RETURN(std::vector<Value> items, EvaluateAll(node.children, 0));
      return MakeList(std::move(items), node.kind == NodeKind::kTuple);
    }
    case NodeKind::kUnary: {
      TENSORD_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
      env_.offset = node.offset;
      if (node.text != "not") return ApplyUnary(env_, node.text, value);
      TENSORD_ASSIGN_OR_RETURN(const bool truth, Truth(env_, value));
      return Value(!truth);
    }
    case NodeKind::kBinary:
    case NodeKind::kAnd:
    case NodeKind::kOr:
      return EvaluateChain(node);
    case NodeKind::kCompare:
      return EvaluateCompare(node);
    case NodeKind::kCall:
      return EvaluateCall(node);
    case NodeKind::kAttribute:
      return EvaluateAttribute(node);
    case NodeKind::kSubscript:
      return EvaluateSubscript(node);
    case NodeKind::kSlice:
      return EvaluateSlice(node);
    case NodeKind::kEllipsis:
      return Value(Ellipsis{});
  }
  return Value();
}

absl::StatusOr<std::vector<Value>> Evaluator::EvaluateAll(const std::vector<NodePtr>& nodes, size_t from) {
  std::vector<Value> values;
  for (size_t i = from; i < nodes.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(Value value, Evaluate(*nodes[i]));
    values.push_back(std::move(value));
  }
  return values;
}

absl::StatusOr<Value> Evaluator::EvaluateName(const Node& node) {
  env_.offset = node.offset;
  if (const auto it = variables_.find(node.text); it != variables_.end()) return it->second;
  if (std::optional<Value> value = BuiltInValue(node.text)) return *std::move(value);
  if (!node.text.starts_with('_')) {
    TENSORD_ASSIGN_OR_RETURN(std::optional<Value> found, LookUp(node.text));
    if (found) return *std::move(found);
  }
  if (IsFunction(node.text)) return Value(Function{node.text, nullptr});
  return UnknownVariable(node.text, absl::OkStatus());
}

absl::StatusOr<Value> Evaluator::EvaluateChain(const Node& node) {
  // Down the left operands and up again in a loop: a sum of a thousand terms is a tree a thousand levels high.
  std::vector<const Node*> chain;
  const Node* at = &node;
  while (at->kind == NodeKind::kBinary || at->kind == NodeKind::kAnd || at->kind == NodeKind::kOr) {
    chain.push_back(at);
    at = at->children[0].get();
  }
  TENSORD_ASSIGN_OR_RETURN(Value left, Evaluate(*at));
  for (; !chain.empty(); chain.pop_back()) {
    const Node& step = *chain.back();
    if (step.kind == NodeKind::kBinary) {
      TENSORD_ASSIGN_OR_RETURN(const Value right, Evaluate(*step.children[1]));
      env_.offset = step.offset;
      TENSORD_ASSIGN_OR_RETURN(left, ApplyBinary(env_, step.text, left, right));
      continue;
    }
    env_.offset = step.offset;
    TENSORD_ASSIGN_OR_RETURN(left, PinAll(left));  // its truth and its value are asked one after the other
    TENSORD_ASSIGN_OR_RETURN(const bool truth, Truth(env_, left));
    if (truth == (step.kind == NodeKind::kOr)) continue;
    TENSORD_ASSIGN_OR_RETURN(left, Evaluate(*step.children[1]));
  }
  return left;
}

absl::StatusOr<Value> Evaluator::EvaluateCompare(const Node& node) {
  TENSORD_ASSIGN_OR_RETURN(Value left, Evaluate(*node.children[0]));
  for (size_t i = 0; i < node.operators.size(); ++i) {
    TENSORD_ASSIGN_OR_RETURN(Value right, Evaluate(*node.children[i + 1]));
    env_.offset = node.offset;
    TENSORD_ASSIGN_OR_RETURN(Value result, ApplyComparison(env_, node.operators[i], left, right));
    if (i + 1 == node.operators.size()) return result;
    TENSORD_ASSIGN_OR_RETURN(const bool truth, Truth(env_, result));
    if (!truth) return result;
    left = std::move(right);
  }
  return left;
}

absl::StatusOr<Value> Evaluator::EvaluateCall(const Node& node) {
  const Node& callee = *node.children[0];
  // What is called comes first, so that an unknown name is told before its arguments are looked at.
  Value function;
  std::optional<Value> self;
  std::string method;
  if (callee.kind == NodeKind::kName && !variables_.contains(callee.text) && IsFunction(callee.text)) {
    function = Value(Function{callee.text, nullptr});
  } else if (callee.kind == NodeKind::kAttribute) {
    TENSORD_ASSIGN_OR_RETURN(Value object, Evaluate(*callee.children[0]));
    env_.offset = callee.offset;
    if (object.Is<Namespace>()) {
      TENSORD_ASSIGN_OR_RETURN(function, Attribute(object, callee.text));
    } else {
      self = std::move(object);
      method = callee.text;
    }
  } else {
    TENSORD_ASSIGN_OR_RETURN(function, Evaluate(callee));
  }
  Arguments arguments;
  TENSORD_ASSIGN_OR_RETURN(arguments.positional, EvaluateAll(node.children, 1));
  for (const Keyword& keyword : node.keywords) {
    TENSORD_ASSIGN_OR_RETURN(Value value, Evaluate(*keyword.value));
    arguments.keywords.emplace_back(keyword.name, std::move(value));
  }
  env_.offset = callee.offset;
  if (self) return CallMethodOn(*self, method, arguments);
  if (const Function* f = function.As<Function>()) return CallFunctionValue(*f, arguments);
  if (const ModelPtr* model = function.As<ModelPtr>()) return CallModel(env_, *model, arguments);
  if (const LayersPtr* layers = function.As<LayersPtr>()) {
    TENSORD_ASSIGN_OR_RETURN(const ModelPtr model, CreateModel(env_, *layers, ""));
    return CallModel(env_, model, arguments);
  }
  return env_.Problem(StrCat(function.KindText(), " cannot be called"));
}

absl::StatusOr<Value> Evaluator::CallFunctionValue(const Function& function, const Arguments& arguments) {
  if (function.self) return CallMethodOn(*function.self, function.name, arguments);
  constexpr std::string_view kLayers = "nn.";
  if (function.name.starts_with(kLayers))
    return MakeLayer(env_, std::string_view(function.name).substr(kLayers.size()), arguments);
  if (function.name == "call" && !arguments.positional.empty()) {
    // The op `call` by its own name: call(net, X).
    if (const ModelPtr* model = arguments.positional[0].As<ModelPtr>()) {
      Arguments rest = arguments;
      rest.positional.erase(rest.positional.begin());
      return CallModel(env_, *model, rest);
    }
    return env_.Problem(StrCat("call takes a model first, not ", arguments.positional[0].KindText()));
  }
  return CallFunction(env_, function.name, arguments);
}

absl::StatusOr<Value> Evaluator::CallMethodOn(const Value& self, const std::string& name, const Arguments& arguments) {
  if (const TensorPtr* tensor = self.As<TensorPtr>()) return CallMethod(env_, name, *tensor, arguments);
  if (const LayersPtr* layers = self.As<LayersPtr>()) return CallLayersMethod(env_, name, *layers, arguments);
  const ModelPtr* model = self.As<ModelPtr>();
  if (model != nullptr && IsModelMethod(name)) return CallModelMethod(env_, name, *model, arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value attribute, Attribute(self, name));
  if (const ModelPtr* part = attribute.As<ModelPtr>()) return CallModel(env_, *part, arguments);
  return env_.Problem(StrCat(attribute.KindText(), " cannot be called"));
}

absl::StatusOr<Value> Evaluator::EvaluateAttribute(const Node& node) {
  TENSORD_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
  env_.offset = node.offset;
  return Attribute(value, node.text);
}

absl::StatusOr<Value> Evaluator::Attribute(const Value& value, const std::string& name) {
  if (const TensorPtr* tensor = value.As<TensorPtr>()) {
    TENSORD_ASSIGN_OR_RETURN(std::optional<Value> attribute, TensorAttribute(env_, name, *tensor));
    if (attribute) return *std::move(attribute);
    if (IsMethod(name)) return Value(Function{name, std::make_shared<const Value>(value)});
    return UnknownName(env_, name, MethodNames());
  }
  if (const Namespace* module = value.As<Namespace>()) {
    if (std::optional<Value> member = ModuleMember(module->name, name)) return *std::move(member);
    return UnknownName(env_, name, FunctionNames());
  }
  if (const ModelPtr* model = value.As<ModelPtr>()) {
    if (IsModelMethod(name)) return Value(Function{name, std::make_shared<const Value>(value)});
    return ModelAttribute(name, *model);
  }
  if (const DeviceValue* device = value.As<DeviceValue>()) {
    if (name == "type") return Value(std::string(DeviceKindName(device->id.kind)));
    if (name == "index")
      return device->id.kind == DeviceKind::kCpu ? Value() : Value(static_cast<int64_t>(device->id.index));
  }
  if (const Dtype* dtype = value.As<Dtype>()) {
    if (name == "itemsize") return Value(static_cast<int64_t>(ItemSize(*dtype)));
    if (name == "is_floating_point") return Value(IsReal(*dtype));
  }
  if (value.Is<LayersPtr>()) {
    return env_.Problem(
        StrCat("the layer is not made yet, so it has no ", name, "; assign it to a name first: net = ..."));
  }
  return env_.Problem(StrCat(value.KindText(), " has no attribute ", name));
}

absl::StatusOr<Value> Evaluator::EvaluateSubscript(const Node& node) {
  TENSORD_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[0]));
  TENSORD_ASSIGN_OR_RETURN(std::vector<Value> parts, EvaluateAll(node.children, 1));
  env_.offset = node.offset;
  if (const TensorPtr* tensor = value.As<TensorPtr>()) {
    // X[(0, 1)] is X[0, 1], as in Python.
    if (parts.size() == 1) {
      if (const ListPtr* list = parts[0].As<ListPtr>(); list != nullptr && (*list)->tuple)
        parts = std::vector<Value>((*list)->items);
    }
    return IndexTensor(env_, *tensor, parts);
  }
  if (parts.size() != 1) return env_.Problem(StrCat(value.KindText(), " takes one index"));
  if (value.Is<ListPtr>() || value.Is<std::string>()) return IndexList(env_, value, parts[0]);
  if (value.Is<ModelPtr>() || value.Is<LayersPtr>()) return IndexModel(env_, value, parts[0]);
  return env_.Problem(StrCat(value.KindText(), " cannot be indexed"));
}

absl::StatusOr<Value> Evaluator::EvaluateSlice(const Node& node) {
  SliceValue slice;
  std::optional<int64_t>* const targets[] = {&slice.start, &slice.stop, &slice.step};
  for (size_t i = 0; i < 3; ++i) {
    if (node.children[i] == nullptr) continue;
    TENSORD_ASSIGN_OR_RETURN(const Value value, Evaluate(*node.children[i]));
    if (value.Is<None>()) continue;
    *targets[i] = ToInteger(value);
    if (!*targets[i])
      return ExpressionProblem(env_.source, node.offset, StrCat("a slice takes integers, not ", BriefText(value)));
  }
  return Value(slice);
}

}  // namespace tensord::expr
