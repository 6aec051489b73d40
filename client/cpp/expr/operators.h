// Operators of the language on values: Python's on numbers, the daemon's ops on tensors.
#pragma once

#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"
#include "kernels/ops/op.h"

namespace tensord::expr {

// + - * / // % ** @ & | ^ << >>
absl::StatusOr<Value> ApplyBinary(Env& env, std::string_view op, const Value& left, const Value& right);
// + - ~
absl::StatusOr<Value> ApplyUnary(Env& env, std::string_view op, const Value& value);
// == != < <= > >= `is` `is not`
absl::StatusOr<Value> ApplyComparison(Env& env, std::string_view op, const Value& left, const Value& right);
// Truth as Python has it; a tensor of one element is asked for, more are refused.
absl::StatusOr<bool> Truth(Env& env, const Value& value);

// An op on tensors and numbers. Where no tensor is among them, the first number becomes a 0-d tensor. None is an
// operand left out.
absl::StatusOr<Value> ApplyOp(Env& env, Op op, const std::vector<Value>& operands, Attributes attributes = {});

// The one element of a tensor as a number. Error: EXPRESSION_INVALID for more than one.
absl::StatusOr<Value> ItemOf(Env& env, const TensorPtr& tensor);

}  // namespace tensord::expr
