// Another dtype, another device.
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/create.h"
#include "client/cpp/expr/functions.h"

namespace tensord::expr {

absl::StatusOr<Value> CastTensor(Env& env, const TensorPtr& tensor, Dtype dtype) {
  if (tensor->spec.type.dtype == dtype) return Value(tensor);
  TENSORD_ASSIGN_OR_RETURN(TensorPtr result,
                           env.graph->Apply(Op::kCast, {tensor}, ConvertAttributes{dtype, "", false}));
  return Value(std::move(result));
}

absl::StatusOr<Value> MoveTensor(Env& env, const TensorPtr& tensor, const std::string& device, bool copy) {
  // Where it is already, it is the same handle, and nobody needs to be asked.
  if (!copy && DeviceId::Parse(device) == tensor->spec.device) return Value(tensor);
  TENSORD_ASSIGN_OR_RETURN(TensorPtr result,
                           env.graph->Apply(Op::kTo, {tensor}, ConvertAttributes{Dtype::kNone, device, copy}));
  return SettleDevice(env, std::move(result), device);
}

namespace {

// X.to("cuda:0"), X.to(float16), X.to(device=try_gpu(), dtype=float32, copy=True), X.to(Y).
absl::StatusOr<Value> To(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "to", arguments);
  TENSORD_ASSIGN_OR_RETURN(TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(Dtype dtype, read.DtypeOr("dtype", Dtype::kNone));
  TENSORD_ASSIGN_OR_RETURN(std::string device, read.DeviceOr("device", "\n"));
  const auto has_device = [&] { return device != "\n"; };
  while (read.HasPositional()) {
    TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("target"));
    if (const TensorPtr* like = value->As<TensorPtr>()) {
      dtype = (*like)->spec.type.dtype;
      device = (*like)->spec.device.ToString();
    } else if (const std::optional<Dtype> d = AsDtype(*value)) {
      dtype = *d;
    } else if (std::optional<std::string> text = AsDevice(*value)) {
      device = *std::move(text);
    } else {
      return read.Invalid("target", *value, "a device or a dtype");
    }
  }
  TENSORD_ASSIGN_OR_RETURN(const bool copy, read.Bool("copy", false));
  read.Keyword("non_blocking");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (dtype == Dtype::kNone && !has_device()) {
    return Error(Reason::kArityInvalid).With("op", "to").With("expected", "a device or a dtype").With("got", "neither");
  }
  Value result(x);
  if (dtype != Dtype::kNone) {
    TENSORD_ASSIGN_OR_RETURN(result, CastTensor(env, x, dtype));
  }
  if (!has_device() && !copy) return result;
  return MoveTensor(env, *result.As<TensorPtr>(), has_device() ? device : x->spec.device.ToString(), copy);
}

absl::StatusOr<Value> Cpu(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "cpu", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return MoveTensor(env, x, "cpu", false);
}

// X.cuda(), X.cuda(1), X.cuda("cuda:1").
absl::StatusOr<Value> Cuda(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "cuda", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  const Value* device = read.Optional("device");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (device == nullptr) return MoveTensor(env, x, "cuda:0", false);
  const std::optional<std::string> text = AsDevice(*device);
  if (!text) return read.Invalid("device", *device, "the number of a GPU, or a device");
  return MoveTensor(env, x, *text, false);
}

absl::StatusOr<Value> Cast(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "cast", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("dtype"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (const std::optional<Dtype> dtype = AsDtype(*value)) return CastTensor(env, x, *dtype);
  return Error(Reason::kDtypeUnknown).With("value", BriefText(*value)).With("known", KnownDtypes());
}

absl::StatusOr<Value> Clone(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "clone", arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x,input"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return MoveTensor(env, x, x->spec.device.ToString(), true);
}

// Tensors never change and carry no gradient, so these give the tensor itself.
absl::StatusOr<Value> Itself(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "detach", arguments);
  TENSORD_ASSIGN_OR_RETURN(TensorPtr x, read.Tensor("x,input"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return Value(std::move(x));
}

template <Dtype kDtype>
absl::StatusOr<Value> CastTo(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, DtypeName(kDtype), arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr x, read.Tensor("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  return CastTensor(env, x, kDtype);
}

constexpr auto kFunctions = std::to_array<Builtin>(
    {{"to", To}, {"cast", Cast}, {"astype", Cast}, {"clone", Clone}, {"detach", Itself}, {"contiguous", Itself}});

constexpr auto kMethods = std::to_array<Builtin>({{"type", Cast},
                                                  {"cpu", Cpu},
                                                  {"cuda", Cuda},
                                                  {"float", CastTo<Dtype::kFloat32>},
                                                  {"double", CastTo<Dtype::kFloat64>},
                                                  {"half", CastTo<Dtype::kFloat16>},
                                                  {"bfloat16", CastTo<Dtype::kBfloat16>},
                                                  {"int", CastTo<Dtype::kInt32>},
                                                  {"long", CastTo<Dtype::kInt64>},
                                                  {"short", CastTo<Dtype::kInt16>},
                                                  {"bool", CastTo<Dtype::kBool>}});

}  // namespace

absl::Span<const Builtin> ConvertFunctions() { return kFunctions; }
absl::Span<const Builtin> ConvertMethods() { return kMethods; }

}  // namespace tensord::expr
