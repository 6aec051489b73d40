// Binds the arguments of a call to parameters, one after the other, as Python does.
//
//   ArgumentReader read(env, "sum", arguments);
//   TENSORD_ASSIGN_OR_RETURN(TensorPtr x, read.Tensor("x"));
//   const Value* axis = read.Optional("axis,dim");        // names in any spelling; positional first
//   TENSORD_RETURN_IF_ERROR(read.Finish());
//
// Errors: ARITY_INVALID (missing, or too many), ATTRIBUTE_INVALID (an unknown keyword, or a value of the wrong kind),
// EXPRESSION_INVALID (given twice).
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/cpp/expr/env.h"

namespace tensord::expr {

class ArgumentReader {
 public:
  ArgumentReader(const Env& env, std::string_view function, const Arguments& arguments);

  // The next positional argument, or the keyword of one of the comma-separated names. Null where there is none, or
  // where it is None.
  const Value* Optional(std::string_view names);
  // By keyword only.
  const Value* Keyword(std::string_view names);
  // As Optional; absent is an error.
  absl::StatusOr<const Value*> Required(std::string_view names);

  // Conversions of required arguments, and with a default of optional ones.
  absl::StatusOr<TensorPtr> Tensor(std::string_view names);
  absl::StatusOr<int64_t> Integer(std::string_view names, std::optional<int64_t> otherwise = std::nullopt);
  absl::StatusOr<bool> Bool(std::string_view names, bool otherwise);
  absl::StatusOr<double> Real(std::string_view names, double otherwise);
  absl::StatusOr<Dtype> DtypeOr(std::string_view names, Dtype otherwise);               // keyword only
  absl::StatusOr<std::string> DeviceOr(std::string_view names, std::string otherwise);  // keyword only
  // f(2, 3), f((2, 3)), f([2, 3]) or f(shape=(2, 3)): all positional arguments that are left.
  absl::StatusOr<Dims> Sizes(std::string_view names);
  // What is left of the positional arguments; a single list counts as its items.
  std::vector<Value> Rest();
  bool HasPositional() const { return next_ < arguments_.positional.size(); }
  const Value* PeekPositional() const { return HasPositional() ? &arguments_.positional[next_] : nullptr; }

  // Everything was taken.
  absl::Status Finish() const;

  absl::Status Invalid(std::string_view name, const Value& value, std::string_view allowed) const;

 private:
  const Env& env_;
  std::string function_;
  const Arguments& arguments_;
  size_t next_ = 0;
  std::vector<bool> used_;
  std::vector<std::string> known_;
  absl::Status twice_;
};

// Conversions of a value on its own; empty where it is none.
std::optional<Dtype> AsDtype(const Value& value);
// "cuda:0", device("cuda:0"), 0 (the GPU of that number).
std::optional<std::string> AsDevice(const Value& value);
std::optional<Dims> AsSizes(const Value& value);  // an integer, or a list or tuple of integers
// A short text of a value, for "X is …" in errors.
std::string BriefText(const Value& value);

}  // namespace tensord::expr
