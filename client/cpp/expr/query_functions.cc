// What is asked of a tensor: numbers and lists out of it, its sizes, comparisons, elements by index.
#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/elements.h"
#include "client/cpp/expr/functions.h"
#include "client/cpp/expr/op_call.h"
#include "client/cpp/expr/operators.h"

namespace tensord::expr {

// The argument as a number: of a tensor its one element.
absl::StatusOr<Value> NumberArgument(Env& env, std::string_view name, const Arguments& arguments) {
  ArgumentReader read(env, name, arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (const TensorPtr* tensor = value->As<TensorPtr>()) return ItemOf(env, *tensor);
  if (!value->IsNumber()) return read.Invalid("x", *value, "a number, or a tensor of one element");
  return *value;
}

namespace {

// allclose(a, b, rtol=1e-5, atol=1e-8): |a - b| <= atol + rtol * |b|, everywhere.
absl::StatusOr<Value> AllClose(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "allclose", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr a, read.Tensor("x1,input"));
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr b, read.Tensor("x2,other"));
  TENSORD_ASSIGN_OR_RETURN(const double rtol, read.Real("rtol", 1e-5));
  TENSORD_ASSIGN_OR_RETURN(const double atol, read.Real("atol", 1e-8));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  TENSORD_ASSIGN_OR_RETURN(const Value difference, ApplyBinary(env, "-", Value(a), Value(b)));
  TENSORD_ASSIGN_OR_RETURN(const Value distance, ApplyOp(env, Op::kAbs, {difference}));
  TENSORD_ASSIGN_OR_RETURN(const Value size, ApplyOp(env, Op::kAbs, {Value(b)}));
  TENSORD_ASSIGN_OR_RETURN(const Value relative, ApplyBinary(env, "*", size, Value(rtol)));
  TENSORD_ASSIGN_OR_RETURN(const Value bound, ApplyBinary(env, "+", relative, Value(atol)));
  TENSORD_ASSIGN_OR_RETURN(const Value close, ApplyOp(env, Op::kLessEqual, {distance, bound}));
  TENSORD_ASSIGN_OR_RETURN(const Value equal, ApplyOp(env, Op::kEqual, {Value(a), Value(b)}));  // infinities
  TENSORD_ASSIGN_OR_RETURN(const Value either, ApplyOp(env, Op::kLogicalOr, {close, equal}));
  ReduceAttributes everywhere;
  everywhere.all_axes = true;
  TENSORD_ASSIGN_OR_RETURN(const Value all, ApplyOp(env, Op::kAll, {either}, everywhere));
  return ItemOf(env, *all.As<TensorPtr>());
}

// take(X, idx) without an axis works on X flattened, as PyTorch and NumPy do.
absl::StatusOr<Value> Take(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "take", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr indices, read.Tensor("indices,index"));
  const Value* axis = read.Optional("axis,dim");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (axis != nullptr) return CallRow(env, Op::kTake, {{Value(x), Value(indices), *axis}, {}});
  TENSORD_ASSIGN_OR_RETURN(const Value flat, CallFunction(env, "reshape", {{Value(x), Value(int64_t{-1})}, {}}));
  return CallRow(env, Op::kTake, {{flat, Value(indices), Value(int64_t{0})}, {}});
}

absl::StatusOr<Value> IndexSelect(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "index_select", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(const Value* axis, read.Required("dim,axis"));
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr indices, read.Tensor("index,indices"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return CallRow(env, Op::kTake, {{Value(x), Value(indices), *axis}, {}});
}

absl::StatusOr<Value> Item(Env& env, const Arguments& arguments) { return NumberArgument(env, "item", arguments); }

Value NestElements(const TensorType& type, absl::Span<const int64_t> shape, std::string_view data, size_t& next) {
  if (shape.empty()) {
    const size_t size = ItemSize(type.dtype);
    const Element element = ReadElement(type.dtype, data.data() + size * next++);
    if (const uint64_t* u = std::get_if<uint64_t>(&element); u != nullptr && *u <= INT64_MAX)
      return Value(static_cast<int64_t>(*u));
    return std::visit([](auto number) { return Value(number); }, element);
  }
  std::vector<Value> items;
  for (int64_t i = 0; i < shape[0]; ++i) items.push_back(NestElements(type, shape.subspan(1), data, next));
  return MakeList(std::move(items));
}

absl::StatusOr<Value> ToListMethod(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "tolist", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  constexpr int64_t kMost = 1 << 22;
  int64_t items = 1;
  for (const int64_t n : x->spec.type.shape) {
    if (__builtin_mul_overflow(items, std::max<int64_t>(n, 1), &items)) items = kMost + 1;
  }
  if (items > kMost) {
    return env.Problem(StrCat("tolist: a list has at most ", kMost,
                              " items; `tensorctl get NAME FILE.npy` brings large tensors home"));
  }
  TENSORD_ASSIGN_OR_RETURN(const std::string data, env.graph->Fetch(x));
  size_t next = 0;
  return NestElements(x->spec.type, x->spec.type.shape, data, next);
}

// X.size() is the shape, X.size(0) one of its sizes.
absl::StatusOr<Value> Size(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "size", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  const Dims& shape = x->spec.type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  const Value* axis = read.Optional("dim,axis");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (axis == nullptr) return MakeSizes(shape);
  const std::optional<int64_t> at = ToInteger(*axis);
  if (!at) return read.Invalid("dim", *axis, "an integer");
  if (*at < -rank || *at >= rank)
    return Error(Reason::kAxisInvalid).With("op", "size").With("axis", *at).With("rank", rank);
  return Value(shape[static_cast<size_t>(*at < 0 ? *at + rank : *at)]);
}

absl::StatusOr<Value> Rank(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "dim", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return Value(static_cast<int64_t>(x->spec.type.shape.size()));
}

absl::StatusOr<Value> Elements(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "numel", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return Value(x->spec.type.elements());
}

absl::StatusOr<Value> ElementSize(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "element_size", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return Value(static_cast<int64_t>(ItemSize(x->spec.type.dtype)));
}

constexpr auto kFunctions = std::to_array<Builtin>(
    {{"allclose", AllClose}, {"take", Take}, {"index_select", IndexSelect}, {"numel", Elements}});

constexpr auto kMethods = std::to_array<Builtin>({{"item", Item},
                                                  {"tolist", ToListMethod},
                                                  {"size", Size},
                                                  {"dim", Rank},
                                                  {"ndimension", Rank},
                                                  {"nelement", Elements},
                                                  {"numel", Elements},
                                                  {"element_size", ElementSize},
                                                  {"allclose", AllClose},
                                                  {"take", Take},
                                                  {"index_select", IndexSelect}});

}  // namespace

absl::Span<const Builtin> QueryFunctions() { return kFunctions; }
absl::Span<const Builtin> QueryMethods() { return kMethods; }

}  // namespace tensord::expr
