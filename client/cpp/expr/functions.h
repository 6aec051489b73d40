// The functions and methods that have a form of their own, and the look-up of all of them.
//
// Look-up of f(...): this table, creators (create.h), rows of ops.def and their aliases (op_call.h). X.f(...) is f(X,
// ...), apart from the few names
// that mean something else as a method (X.float() casts, float(X) is a number).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

// A function with the arguments as written; for a method, what stood before the point comes first.
using Handler = absl::StatusOr<Value> (*)(Env& env, const Arguments& arguments);

struct Builtin {
  std::string_view name;
  Handler handler;
};

// Tables, one a file.
absl::Span<const Builtin> ViewFunctions();     // functions and methods
absl::Span<const Builtin> ConvertFunctions();  // functions and methods
absl::Span<const Builtin> ConvertMethods();
absl::Span<const Builtin> HostFunctions();
absl::Span<const Builtin> QueryFunctions();
absl::Span<const Builtin> QueryMethods();

bool IsFunction(std::string_view name);
bool IsMethod(std::string_view name);
// Error: OP_UNKNOWN with the nearest names.
absl::StatusOr<Value> CallFunction(Env& env, std::string_view name, const Arguments& arguments);
absl::StatusOr<Value> CallMethod(Env& env, std::string_view name, const TensorPtr& self, const Arguments& arguments);

// X.shape, X.T, … or empty where there is no such attribute.
absl::StatusOr<std::optional<Value>> TensorAttribute(Env& env, std::string_view name, const TensorPtr& tensor);

// All names that can be called or looked up, for completion and for suggestions.
std::vector<std::string_view> FunctionNames();
std::vector<std::string_view> MethodNames();
absl::Status UnknownName(const Env& env, std::string_view name, absl::Span<const std::string_view> known);

// The argument of item(), float() and int() as a number: of a tensor its one element.
absl::StatusOr<Value> NumberArgument(Env& env, std::string_view name, const Arguments& arguments);

// Moves: the same tensor where it is there already.
absl::StatusOr<Value> MoveTensor(Env& env, const TensorPtr& tensor, const std::string& device, bool copy);
absl::StatusOr<Value> CastTensor(Env& env, const TensorPtr& tensor, Dtype dtype);

}  // namespace tensord::expr
