#include "client/cpp/expr/operators.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/create.h"
#include "client/cpp/expr/elements.h"

namespace tensord::expr {
namespace {

using Named = std::pair<std::string_view, Op>;

constexpr auto kBinary = std::to_array<Named>({{"+", Op::kAdd},
                                               {"-", Op::kSubtract},
                                               {"*", Op::kMultiply},
                                               {"/", Op::kDivide},
                                               {"//", Op::kFloorDivide},
                                               {"%", Op::kRemainder},
                                               {"**", Op::kPower},
                                               {"@", Op::kMatmul},
                                               {"&", Op::kBitwiseAnd},
                                               {"|", Op::kBitwiseOr},
                                               {"^", Op::kBitwiseXor},
                                               {"<<", Op::kBitwiseLeftShift},
                                               {">>", Op::kBitwiseRightShift},
                                               {"==", Op::kEqual},
                                               {"!=", Op::kNotEqual},
                                               {"<", Op::kLess},
                                               {"<=", Op::kLessEqual},
                                               {">", Op::kGreater},
                                               {">=", Op::kGreaterEqual}});

Op FindOperator(std::string_view op) {
  const auto* it = std::find_if(kBinary.begin(), kBinary.end(), [&](const Named& n) { return n.first == op; });
  return it == kBinary.end() ? Op::kNone : it->second;
}

bool IsOperand(const Value& value) { return value.Is<TensorPtr>() || value.IsNumber(); }

absl::Status NoOperator(const Env& env, std::string_view op, const Value& left, const Value& right) {
  const bool list = left.Is<ListPtr>() || right.Is<ListPtr>();
  const bool tensor = left.Is<TensorPtr>() || right.Is<TensorPtr>();
  return env.Problem(StrCat("no ", op, " between ", left.KindText(), " and ", right.KindText(),
                            list && tensor ? "; make the list a tensor: tensor([...])" : ""));
}

bool SameList(const ListValue& a, const ListValue& b);

// Python's == on what lives in the client.
bool SameHostValue(const Value& a, const Value& b) {
  if (a.IsNumber() && b.IsNumber()) return Compare(a, b) == 0;
  if (const ListPtr* left = a.As<ListPtr>()) {
    const ListPtr* right = b.As<ListPtr>();
    return right != nullptr && (*left)->tuple == (*right)->tuple && SameList(**left, **right);
  }
  const auto device_of = [](const Value& v) -> std::optional<DeviceId> {
    if (const DeviceValue* device = v.As<DeviceValue>()) return device->id;
    if (const std::string* text = v.As<std::string>()) return DeviceId::Parse(*text);
    return std::nullopt;
  };
  if (a.Is<DeviceValue>() || b.Is<DeviceValue>()) {
    const auto left = device_of(a);
    return left && left == device_of(b);
  }
  if (a.v.index() != b.v.index()) return false;
  if (const std::string* text = a.As<std::string>()) return *text == *b.As<std::string>();
  if (const Dtype* dtype = a.As<Dtype>()) return *dtype == *b.As<Dtype>();
  if (const TensorPtr* tensor = a.As<TensorPtr>()) return IsSameTensor(**tensor, **b.As<TensorPtr>());
  if (const ModelPtr* model = a.As<ModelPtr>())
    return (*model)->ref == (*b.As<ModelPtr>())->ref && (*model)->path == (*b.As<ModelPtr>())->path;
  if (const LayersPtr* layers = a.As<LayersPtr>()) return *layers == *b.As<LayersPtr>();
  return a.Is<None>() || a.Is<Ellipsis>();
}

bool SameList(const ListValue& a, const ListValue& b) {
  return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(), SameHostValue);
}

// `is`: one thing, not equal things.
bool IsSame(const Value& a, const Value& b) {
  if (a.v.index() != b.v.index()) return false;
  if (const ListPtr* list = a.As<ListPtr>()) return *list == *b.As<ListPtr>();
  return SameHostValue(a, b);
}

}  // namespace

absl::StatusOr<Value> ApplyOp(Env& env, Op op, const std::vector<Value>& operands, Attributes attributes) {
  const bool has_tensor =
      std::any_of(operands.begin(), operands.end(), [](const Value& v) { return v.Is<TensorPtr>(); });
  std::vector<Operand> list;
  for (const Value& value : operands) {
    if (const TensorPtr* tensor = value.As<TensorPtr>()) {
      list.emplace_back(*tensor);
    } else if (value.Is<None>()) {
      list.emplace_back(Scalar{});
    } else if (!value.IsNumber()) {
      return Error(Reason::kAttributeInvalid)
          .With("op", RowOf(op).name)
          .With("attribute", StrCat("operand ", list.size()))
          .With("value", BriefText(value))
          .With("allowed", value.Is<ListPtr>() ? "a tensor or a number; tensor([...]) makes a tensor of a list"
                                               : "a tensor or a number");
    } else if (!has_tensor && list.empty()) {
      // sqrt(4) is a question about reals.
      const Dtype dtype = RowOf(op).types == TypeRule::kReal ? Dtype::kFloat32 : Dtype::kNone;
      TENSORD_ASSIGN_OR_RETURN(TensorPtr constant, MakeConstant(env, value, dtype, ""));
      list.emplace_back(std::move(constant));
    } else {
      list.emplace_back(ToScalar(value));
    }
  }
  TENSORD_ASSIGN_OR_RETURN(TensorPtr result, env.graph->Apply(op, std::move(list), std::move(attributes)));
  return Value(std::move(result));
}

absl::StatusOr<Value> ApplyBinary(Env& env, std::string_view op, const Value& left, const Value& right) {
  if (left.IsNumber() && right.IsNumber() && op != "@") {
    Arithmetic result = Compute(op, left, right);
    if (!result.value) return env.Problem(result.problem);
    return *std::move(result.value);
  }
  if ((left.Is<TensorPtr>() || right.Is<TensorPtr>()) && IsOperand(left) && IsOperand(right)) {
    return ApplyOp(env, FindOperator(op), {left, right});
  }
  if (op == "+") {
    const std::string* a = left.As<std::string>();
    const std::string* b = right.As<std::string>();
    if (a != nullptr && b != nullptr) return Value(StrCat(*a, *b));
    const ListPtr* first = left.As<ListPtr>();
    const ListPtr* second = right.As<ListPtr>();
    if (first != nullptr && second != nullptr && (*first)->tuple == (*second)->tuple) {
      std::vector<Value> items = (*first)->items;
      items.insert(items.end(), (*second)->items.begin(), (*second)->items.end());
      return MakeList(std::move(items), (*first)->tuple);
    }
  }
  return NoOperator(env, op, left, right);
}

absl::StatusOr<Value> ApplyUnary(Env& env, std::string_view op, const Value& value) {
  if (value.Is<TensorPtr>()) {
    return ApplyOp(env, op == "-" ? Op::kNegative : op == "+" ? Op::kPositive : Op::kBitwiseInvert, {value});
  }
  if (!value.IsNumber()) return env.Problem(StrCat("no unary ", op, " for ", value.KindText()));
  Arithmetic result = op == "-" ? Negate(value) : op == "~" ? Invert(value) : Compute("+", value, Value(int64_t{0}));
  if (op == "+" && value.Is<double>()) result = {value, ""};
  if (!result.value) return env.Problem(result.problem);
  return *std::move(result.value);
}

absl::StatusOr<Value> ApplyComparison(Env& env, std::string_view op, const Value& left, const Value& right) {
  if (op == "is") return Value(IsSame(left, right));
  if (op == "is not") return Value(!IsSame(left, right));
  if ((left.Is<TensorPtr>() || right.Is<TensorPtr>()) && IsOperand(left) && IsOperand(right)) {
    return ApplyOp(env, FindOperator(op), {left, right});
  }
  if (op == "==") return Value(SameHostValue(left, right));
  if (op == "!=") return Value(!SameHostValue(left, right));
  if (left.IsNumber() && right.IsNumber()) {
    const int order = Compare(left, right);
    if (order == 2) return Value(false);
    return Value(op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0);
  }
  return NoOperator(env, op, left, right);
}

absl::StatusOr<Value> ItemOf(Env& env, const TensorPtr& tensor) {
  if (tensor->spec.type.elements() != 1) {
    return env.Problem(StrCat("only a tensor of one element is a number; this one has the shape ",
                              ShapeText(tensor->spec.type.shape)));
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, env.graph->Fetch(tensor));
  const Element element = ReadElement(tensor->spec.type.dtype, data.data());
  if (const uint64_t* u = std::get_if<uint64_t>(&element); u != nullptr && *u <= INT64_MAX)
    return Value(static_cast<int64_t>(*u));
  return std::visit([](auto number) { return Value(number); }, element);
}

absl::StatusOr<bool> Truth(Env& env, const Value& value) {
  if (const TensorPtr* tensor = value.As<TensorPtr>()) {
    if ((*tensor)->spec.type.elements() != 1) {
      return env.Problem("the truth of a tensor with several elements is ambiguous: use & | ~, any() or all()");
    }
    TENSORD_ASSIGN_OR_RETURN(const Value item, ItemOf(env, *tensor));
    return Truth(env, item);
  }
  if (const bool* b = value.As<bool>()) return *b;
  if (value.IsNumber()) return Compare(value, Value(int64_t{0})) != 0;
  if (const std::string* text = value.As<std::string>()) return !text->empty();
  if (const ListPtr* list = value.As<ListPtr>()) return !(*list)->items.empty();
  return !value.Is<None>();
}

}  // namespace tensord::expr
