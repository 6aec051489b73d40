#include "client/cpp/expr/op_call.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/operators.h"

namespace tensord::expr {
namespace {

struct Alias {
  std::string_view name;
  std::string_view op;
};
constexpr auto kAliases = std::to_array<Alias>({
#define TENSORD_ALIAS(alias, op) {#alias, #op},
#include "client/cpp/expr/aliases.def"
});

// PyTorch's names of operands.
struct OperandName {
  std::string_view name;
  std::string_view spellings;
};
constexpr auto kOperandNames = std::to_array<OperandName>({{"x", "x,input"},
                                                           {"x1", "x1,input"},
                                                           {"x2", "x2,other,exponent,mat2"},
                                                           {"indices", "indices,index"},
                                                           {"mean", "mean,running_mean"},
                                                           {"variance", "variance,running_var"}});

std::string_view SpellingsOf(std::string_view operand) {
  for (const OperandName& name : kOperandNames) {
    if (name.name == operand) return name.spellings;
  }
  return operand;
}

bool HasField(const OpRow& row, std::string_view field) {
  std::string_view fields = row.fields;
  while (!fields.empty()) {
    const size_t comma = std::min(fields.find(','), fields.size());
    if (fields.substr(0, comma) == field) return true;
    fields.remove_prefix(std::min(comma + 1, fields.size()));
  }
  return false;
}

absl::StatusOr<Axes> ReadAxes(const ArgumentReader& read, const Value& value) {
  const std::optional<Dims> sizes = AsSizes(value);
  const auto fits = [](int64_t axis) { return axis >= INT32_MIN && axis <= INT32_MAX; };
  if (!sizes || !std::all_of(sizes->begin(), sizes->end(), fits))
    return read.Invalid("axis", value, "an integer, or a tuple of integers");
  return Axes(sizes->begin(), sizes->end());
}

absl::StatusOr<int32_t> ReadAxis(ArgumentReader& read, std::optional<int64_t> otherwise) {
  TENSORD_ASSIGN_OR_RETURN(const int64_t axis, read.Integer("axis,dim", otherwise));
  if (axis < INT32_MIN || axis > INT32_MAX) return read.Invalid("axis", Value(axis), "an axis of the tensor");
  return static_cast<int32_t>(axis);
}

absl::StatusOr<Attributes> ReadReduce(const OpRow& row, ArgumentReader& read) {
  ReduceAttributes a;
  const Value* axes = read.Optional("axis,dim,axes");
  a.all_axes = axes == nullptr;
  if (axes != nullptr) {
    TENSORD_ASSIGN_OR_RETURN(a.axes, ReadAxes(read, *axes));
  }
  TENSORD_ASSIGN_OR_RETURN(a.keepdims, read.Bool("keepdims,keepdim", false));
  if (HasField(row, "dtype")) {
    TENSORD_ASSIGN_OR_RETURN(a.dtype, read.DtypeOr("dtype", Dtype::kNone));
  }
  if (HasField(row, "correction")) {
    TENSORD_ASSIGN_OR_RETURN(a.correction, read.Real("correction,ddof", 0));
    if (const Value* unbiased = read.Keyword("unbiased")) {
      if (!unbiased->Is<bool>()) return read.Invalid("unbiased", *unbiased, "True or False");
      a.correction = *unbiased->As<bool>() ? 1 : 0;
    }
  }
  if (HasField(row, "last_index")) {
    TENSORD_ASSIGN_OR_RETURN(a.last_index, read.Bool("last_index", false));
  }
  return a;
}

absl::StatusOr<Attributes> ReadSoftmax(ArgumentReader& read) {
  TENSORD_ASSIGN_OR_RETURN(const int32_t axis, ReadAxis(read, -1));
  ReduceAttributes a;
  a.axes = {axis};
  return a;
}

absl::StatusOr<Precision> ReadPrecision(ArgumentReader& read) {
  const Value* value = read.Keyword("precision");
  if (value == nullptr) return Precision::kFloat32;
  const std::string* text = value->As<std::string>();
  if (text != nullptr && *text == "float32") return Precision::kFloat32;
  if (text != nullptr && *text == "tf32") return Precision::kTf32;
  if (text != nullptr && *text == "bfloat16") return Precision::kBfloat16;
  return read.Invalid("precision", *value, "'float32', 'tf32' or 'bfloat16'");
}

absl::StatusOr<Attributes> ReadMatmul(const OpRow& row, ArgumentReader& read) {
  MatmulAttributes a;
  if (HasField(row, "transpose_a")) {
    TENSORD_ASSIGN_OR_RETURN(a.transpose_a, read.Bool("transpose_a", false));
    TENSORD_ASSIGN_OR_RETURN(a.transpose_b, read.Bool("transpose_b", false));
  }
  TENSORD_ASSIGN_OR_RETURN(a.precision, ReadPrecision(read));
  return a;
}

// A list over the spatial axes; one number stands for all of them. Null: not given.
absl::StatusOr<Dims> ReadWindowList(const ArgumentReader& read, const Value* value, std::string_view names,
                                    int spatial) {
  if (value == nullptr || value->Is<None>()) return Dims();
  std::optional<Dims> sizes = AsSizes(*value);
  if (!sizes) return read.Invalid(names, *value, "an integer, or one for each spatial axis");
  if (value->IsInteger()) return Dims(static_cast<size_t>(std::max(spatial, 0)), sizes->front());
  return *std::move(sizes);
}

absl::StatusOr<Attributes> ReadWindow(const OpRow& row, const Value& x, ArgumentReader& read) {
  const TensorPtr* tensor = x.As<TensorPtr>();
  const int spatial = tensor == nullptr ? 0 : static_cast<int>((*tensor)->spec.type.shape.size()) - 2;
  WindowAttributes a;
  // By position they come in PyTorch's order.
  const auto list = [&](std::string_view names) { return ReadWindowList(read, read.Optional(names), names, spatial); };
  const auto keyword = [&](std::string_view names) {
    return ReadWindowList(read, read.Keyword(names), names, spatial);
  };
  const bool pool = HasField(row, "ceil_mode");  // a convolution's sizes are its weight's
  TENSORD_ASSIGN_OR_RETURN(a.sizes, pool ? list("sizes,kernel_size") : keyword("sizes,kernel_size"));
  TENSORD_ASSIGN_OR_RETURN(a.strides, list("strides,stride"));
  TENSORD_ASSIGN_OR_RETURN(const Dims padding, list("padding,pads"));
  TENSORD_ASSIGN_OR_RETURN(a.pads_begin, keyword("pads_begin"));
  TENSORD_ASSIGN_OR_RETURN(a.pads_end, keyword("pads_end"));
  if (a.pads_begin.empty()) a.pads_begin = padding;
  if (a.pads_end.empty()) a.pads_end = padding;
  if (HasField(row, "dilations")) {
    TENSORD_ASSIGN_OR_RETURN(a.dilations, list("dilations,dilation"));
  }
  if (HasField(row, "groups")) {
    TENSORD_ASSIGN_OR_RETURN(a.groups, read.Integer("groups", 0));
  }
  if (HasField(row, "ceil_mode")) {
    TENSORD_ASSIGN_OR_RETURN(a.ceil_mode, read.Bool("ceil_mode", false));
  }
  if (HasField(row, "count_pads")) {
    TENSORD_ASSIGN_OR_RETURN(a.count_pads, read.Bool("count_pads,count_include_pad", false));
  }
  if (HasField(row, "precision")) {
    TENSORD_ASSIGN_OR_RETURN(a.precision, ReadPrecision(read));
  }
  return a;
}

absl::StatusOr<Attributes> ReadNorm(const OpRow& row, ArgumentReader& read) {
  NormAttributes a;
  if (HasField(row, "axis")) {
    TENSORD_ASSIGN_OR_RETURN(a.axis, ReadAxis(read, -1));
  }
  TENSORD_ASSIGN_OR_RETURN(a.epsilon, read.Real("epsilon,eps", 1e-5));
  return a;
}

// One function a family: what it takes beside operands.
absl::StatusOr<Attributes> ReadAttributes(const OpRow& row, const std::vector<Value>& operands, ArgumentReader& read) {
  switch (row.family) {
    case Family::kReduce:
      return ReadReduce(row, read);
    case Family::kSoftmax:
      return ReadSoftmax(read);
    case Family::kMatmul:
      return ReadMatmul(row, read);
    case Family::kWindow:
      return ReadWindow(row, operands.empty() ? Value() : operands[0], read);
    case Family::kNorm:
      return ReadNorm(row, read);
    case Family::kJoin: {
      TENSORD_ASSIGN_OR_RETURN(const int32_t axis, ReadAxis(read, 0));
      return JoinAttributes{axis};
    }
    case Family::kIndex: {
      TENSORD_ASSIGN_OR_RETURN(const int32_t axis, ReadAxis(read, std::nullopt));
      return IndexAttributes{axis};
    }
    default:
      return Attributes();
  }
}

// concat([X, Y]), concat((X, Y), 1).
absl::StatusOr<std::vector<Value>> ReadTensorList(const OpRow& row, ArgumentReader& read) {
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("tensors,arrays,x"));
  if (const ListPtr* list = value->As<ListPtr>()) return std::vector<Value>((*list)->items);
  return Error(Reason::kAttributeInvalid)
      .With("op", row.name)
      .With("attribute", "tensors")
      .With("value", BriefText(*value))
      .With("allowed", StrCat("a list of tensors: ", row.name, "([X, Y])"));
}

}  // namespace

Op FindCallableOp(std::string_view name) {
  static const auto* const kByName = [] {
    auto* map = new absl::flat_hash_map<std::string_view, Op>();
    for (const Alias& alias : kAliases) map->emplace(alias.name, FindOp(alias.op));
    return map;
  }();
  if (const Op op = FindOp(name); op != Op::kNone) return op;
  const auto it = kByName->find(name);
  return it == kByName->end() ? Op::kNone : it->second;
}

absl::StatusOr<Value> CallRow(Env& env, Op op, const Arguments& arguments) {
  const OpRow& row = RowOf(op);
  ArgumentReader read(env, row.name, arguments);
  std::vector<Value> operands;
  absl::Status missing;
  std::string_view names = row.operands;
  while (!names.empty()) {
    const size_t comma = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, comma);
    names.remove_prefix(std::min(comma + 1, names.size()));
    if (name.ends_with('*')) {
      TENSORD_ASSIGN_OR_RETURN(operands, ReadTensorList(row, read));
      break;
    }
    const bool optional = name.ends_with('?');
    if (optional) name.remove_suffix(1);
    const std::string_view spellings = SpellingsOf(name);
    if (optional) {
      const Value* value = read.Optional(spellings);
      operands.push_back(value == nullptr ? Value() : *value);
    } else {
      const absl::StatusOr<const Value*> value = read.Required(spellings);
      if (missing.ok()) missing = value.status();
      operands.push_back(value.ok() ? **value : Value());
    }
  }
  if (!missing.ok()) {
    // Perhaps it was given, by a name that is misspelt: then that is to blame.
    const bool read_on = ReadAttributes(row, operands, read).ok();
    const absl::Status unknown = read.Finish();
    return read_on && ReasonOf(unknown) == Reason::kAttributeInvalid ? unknown : missing;
  }
  while (!operands.empty() && static_cast<int>(operands.size()) > row.min_operands && operands.back().Is<None>())
    operands.pop_back();
  TENSORD_ASSIGN_OR_RETURN(Attributes attributes, ReadAttributes(row, operands, read));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return ApplyOp(env, op, operands, std::move(attributes));
}

}  // namespace tensord::expr
