#include "client/cpp/expr/functions.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/create.h"
#include "client/cpp/expr/op_call.h"
#include "kernels/core/nearest.h"

namespace tensord::expr {
namespace {

Handler Find(absl::Span<const Builtin> table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name) return builtin.handler;
  }
  return nullptr;
}

Handler FindFunctionHandler(std::string_view name) {
  for (const auto table : {ViewFunctions(), ConvertFunctions(), HostFunctions(), QueryFunctions()}) {
    if (const Handler handler = Find(table, name)) return handler;
  }
  return nullptr;
}

Handler FindMethodHandler(std::string_view name) {
  for (const auto table : {ConvertMethods(), QueryMethods(), ViewFunctions(), ConvertFunctions()}) {
    if (const Handler handler = Find(table, name)) return handler;
  }
  return nullptr;
}

// Rows that can follow a point: those with a tensor in front.
bool IsMethodRow(Op op) {
  if (op == Op::kNone) return false;
  const Family family = RowOf(op).family;
  return family != Family::kCreate && family != Family::kConstant && family != Family::kCall && family != Family::kJoin;
}

constexpr auto kAttributes =
    std::to_array<std::string_view>({"shape", "dtype", "device", "ndim", "size", "T", "mT", "H", "data", "itemsize",
                                     "nbytes", "is_cuda", "requires_grad", "grad"});

}  // namespace

bool IsFunction(std::string_view name) {
  return FindFunctionHandler(name) != nullptr || IsCreator(name) || FindCallableOp(name) != Op::kNone;
}

bool IsMethod(std::string_view name) { return FindMethodHandler(name) != nullptr || IsMethodRow(FindCallableOp(name)); }

absl::StatusOr<Value> CallFunction(Env& env, std::string_view name, const Arguments& arguments) {
  if (const Handler handler = FindFunctionHandler(name)) return handler(env, arguments);
  if (IsCreator(name)) return CallCreator(env, name, arguments);
  const Op op = FindCallableOp(name);
  if (op == Op::kNone) return UnknownName(env, name, FunctionNames());
  return CallRow(env, op, arguments);
}

absl::StatusOr<Value> CallMethod(Env& env, std::string_view name, const TensorPtr& self, const Arguments& arguments) {
  Arguments all = arguments;
  all.positional.insert(all.positional.begin(), Value(self));
  if (const Handler handler = FindMethodHandler(name)) return handler(env, all);
  const Op op = FindCallableOp(name);
  if (!IsMethodRow(op)) {
    if (name.ends_with('_') && IsMethod(name.substr(0, name.size() - 1))) {
      return env.NotOffered(
          StrCat(name, " (tensors are immutable; X = X.", name.substr(0, name.size() - 1), "(...) makes a new one)"));
    }
    return UnknownName(env, name, MethodNames());
  }
  return CallRow(env, op, all);
}

absl::StatusOr<std::optional<Value>> TensorAttribute(Env& env, std::string_view name, const TensorPtr& tensor) {
  const TensorType& type = tensor->spec.type;
  if (name == "shape") return std::optional(MakeSizes(type.shape));
  if (name == "dtype") return std::optional(Value(type.dtype));
  if (name == "device") return std::optional(Value(DeviceValue{tensor->spec.device}));
  if (name == "ndim") return std::optional(Value(static_cast<int64_t>(type.shape.size())));
  if (name == "itemsize") return std::optional(Value(static_cast<int64_t>(ItemSize(type.dtype))));
  if (name == "nbytes") return std::optional(Value(type.bytes()));
  if (name == "data") return std::optional(Value(tensor));
  if (name == "is_cuda") return std::optional(Value(tensor->spec.device.kind == DeviceKind::kCuda));
  if (name == "requires_grad") return std::optional(Value(false));
  if (name == "grad") return std::optional(Value());
  if (name == "T" || name == "mT" || name == "H") {
    TENSORD_ASSIGN_OR_RETURN(Value result,
                             CallFunction(env, name == "T" ? "transpose" : "matrix_transpose", {{Value(tensor)}, {}}));
    return std::optional(std::move(result));
  }
  return std::optional<Value>();
}

std::vector<std::string_view> FunctionNames() {
  std::vector<std::string_view> names;
  for (const auto table : {ViewFunctions(), ConvertFunctions(), HostFunctions(), QueryFunctions()}) {
    for (const Builtin& builtin : table) names.push_back(builtin.name);
  }
#define TENSORD_OP(Enum, name, Family, Types, operands, results, fields, summary) names.push_back(#name);
#include "kernels/ops/ops.def"
#undef TENSORD_OP
#define TENSORD_ALIAS(alias, op) names.push_back(#alias);
#include "client/cpp/expr/aliases.def"
  for (const std::string_view name :
       {"tensor", "asarray", "empty", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"}) {
    names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::vector<std::string_view> MethodNames() {
  std::vector<std::string_view> names(kAttributes.begin(), kAttributes.end());
  for (const auto table : {ConvertMethods(), QueryMethods(), ViewFunctions(), ConvertFunctions()}) {
    for (const Builtin& builtin : table) names.push_back(builtin.name);
  }
  for (const std::string_view name : FunctionNames()) {
    if (IsMethodRow(FindCallableOp(name))) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

absl::Status UnknownName(const Env& env, std::string_view name, absl::Span<const std::string_view> known) {
  Error error(Reason::kOpUnknown);
  error = std::move(error).With("name", name).With("daemon_version", env.graph->session().info().daemon_version);
  if (const std::string nearest = NearestNames(name, known); !nearest.empty())
    error = std::move(error).With("nearest", nearest);
  return error;
}

}  // namespace tensord::expr
