// Calls of the op table: every row is a function and, where it has a tensor operand, a method.
//
//   sum(X, axis=0, keepdims=True)     X.sum(0)     add(X, 2)     concat([X, Y], axis=1)     where(X > 0, X, 0)
//
// Arguments are bound from the row: its operands in order, then the fields of its family's attributes. A field has
// the array API's name and
// PyTorch's (axis or dim, keepdims or keepdim, …).
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"
#include "kernels/ops/op.h"

namespace tensord::expr {

// The op of a name of ops.def or of aliases.def; kNone where there is none.
Op FindCallableOp(std::string_view name);

// Calls it. View ops, creators, `to` and `call` have forms of their own (functions.h), and are not for this.
absl::StatusOr<Value> CallRow(Env& env, Op op, const Arguments& arguments);

}  // namespace tensord::expr
