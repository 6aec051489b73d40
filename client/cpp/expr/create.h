// Tensors from nothing and from literals: ones(2, 3), tensor([[1, 2], [3, 4]]), arange(10), rand(2, 3, seed=7).
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/cpp/expr/env.h"

namespace tensord::expr {

// A tensor of a number or of nested lists of numbers. kNone: bool for bools, int64 for integers, float32 where a real
// is among them.
// Errors: EXPRESSION_INVALID (ragged lists), SCALAR_RANGE, ATTRIBUTE_INVALID (something that is no number).
absl::StatusOr<TensorPtr> MakeConstant(Env& env, const Value& data, Dtype dtype, const std::string& device);

// True for zeros, ones, full, …_like, tensor and the like.
bool IsCreator(std::string_view name);
absl::StatusOr<Value> CallCreator(Env& env, std::string_view name, const Arguments& arguments);

// Makes sure that the daemon has accepted a device name that only it can judge ("GPU-1c7f…"); others need no call.
absl::StatusOr<Value> SettleDevice(Env& env, TensorPtr tensor, const std::string& device);

}  // namespace tensord::expr
