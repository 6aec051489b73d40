#include "client/cpp/expr/create.h"

#include <algorithm>
#include <array>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "kernels/core/scalar.h"

namespace tensord::expr {
namespace {

struct Literal {
  Dims shape;
  std::vector<Scalar> values;
};

absl::Status Ragged(const Env& env) {
  return env.Problem("the lists are ragged: along each axis all nested lists must have the same length");
}

// Flattens nested lists; every list of one level must have the same length.
absl::Status Flatten(const Env& env, const Value& value, size_t level, Literal& literal) {
  if (const ListPtr* list = value.As<ListPtr>()) {
    const auto size = static_cast<int64_t>((*list)->items.size());
    if (level == literal.shape.size()) {
      if (!literal.values.empty()) return Ragged(env);
      literal.shape.push_back(size);
    }
    if (literal.shape[level] != size) return Ragged(env);
    for (const Value& item : (*list)->items) TENSORD_RETURN_IF_ERROR(Flatten(env, item, level + 1, literal));
    return absl::OkStatus();
  }
  if (level != literal.shape.size()) return Ragged(env);
  if (!value.IsNumber()) {
    return Error(Reason::kAttributeInvalid)
        .With("op", "tensor")
        .With("attribute", "data")
        .With("value", BriefText(value))
        .With("allowed",
              value.Is<TensorPtr>() ? "numbers in lists; stack and concat join tensors" : "numbers in lists");
  }
  literal.values.push_back(ToScalar(value));
  return absl::OkStatus();
}

Dtype NaturalDtype(const std::vector<Scalar>& values) {
  if (values.empty()) return Dtype::kFloat32;
  DtypeKind kind = DtypeKind::kBool;
  bool large = false;
  for (const Scalar& value : values) {
    kind = std::max(kind, value.kind());
    large = large || std::holds_alternative<uint64_t>(value.value);
  }
  if (kind == DtypeKind::kReal) return Dtype::kFloat32;
  if (kind == DtypeKind::kBool) return Dtype::kBool;
  return large ? Dtype::kUint64 : Dtype::kInt64;
}

// Sets seed and offset of a random op: its own seed, or the one of manual_seed, which goes on counting; without
// either the session draws.
absl::Status SetSeed(Env& env, const Value* seed, const ArgumentReader& read, CreateAttributes& create) {
  if (seed != nullptr) {
    const std::optional<int64_t> number = ToInteger(*seed);
    if (!number && !seed->Is<uint64_t>()) return read.Invalid("seed", *seed, "an integer");
    create.seed = number ? static_cast<uint64_t>(*number) : *seed->As<uint64_t>();
  } else if (env.generator.seed) {
    create.seed = env.generator.seed;
    create.seed_offset = env.generator.drawn;
    TENSORD_RETURN_IF_ERROR(CheckedBytes(create.spec.type.dtype, create.spec.type.shape).status());
    env.generator.drawn += static_cast<uint64_t>(NumElements(create.spec.type.shape));
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> Finish(Env& env, Op op, const ArgumentReader& read, std::vector<Scalar> scalars,
                             CreateAttributes create) {
  TENSORD_RETURN_IF_ERROR(read.Finish());
  const std::string device = create.spec.device;
  std::vector<Operand> operands(scalars.begin(), scalars.end());
  TENSORD_ASSIGN_OR_RETURN(TensorPtr tensor, env.graph->Apply(op, std::move(operands), std::move(create)));
  return SettleDevice(env, std::move(tensor), device);
}

absl::StatusOr<Scalar> NumberOf(const ArgumentReader& read, std::string_view name, const Value& value) {
  if (!value.IsNumber()) return read.Invalid(name, value, "a number");
  return ToScalar(value);
}

absl::StatusOr<Value> CallTensor(Env& env, std::string_view name, const Arguments& arguments) {
  ArgumentReader read(env, name, arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* data, read.Required("data,obj,values"));
  TENSORD_ASSIGN_OR_RETURN(const Dtype dtype, read.DtypeOr("dtype", Dtype::kNone));
  TENSORD_ASSIGN_OR_RETURN(const std::string device, read.DeviceOr("device", ""));
  read.Keyword("requires_grad");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (const TensorPtr* tensor = data->As<TensorPtr>()) {
    TensorPtr result = *tensor;
    if (dtype != Dtype::kNone && dtype != result->spec.type.dtype) {
      TENSORD_ASSIGN_OR_RETURN(result, env.graph->Apply(Op::kCast, {result}, ConvertAttributes{dtype, "", false}));
    }
    if (device.empty() || DeviceId::Parse(device) == result->spec.device) return Value(result);
    TENSORD_ASSIGN_OR_RETURN(result,
                             env.graph->Apply(Op::kTo, {result}, ConvertAttributes{Dtype::kNone, device, false}));
    return SettleDevice(env, std::move(result), device);
  }
  TENSORD_ASSIGN_OR_RETURN(TensorPtr tensor, MakeConstant(env, *data, dtype, device));
  return SettleDevice(env, std::move(tensor), device);
}

absl::StatusOr<Value> CallArange(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "arange", arguments);
  const Value* start = read.Optional("start,end");
  const Value* stop = read.Optional("stop,end");
  const Value* step = read.Optional("step");
  if (start == nullptr && stop != nullptr) std::swap(start, stop);
  CreateAttributes create;
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", Dtype::kNone));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", ""));
  if (start == nullptr) return read.Required("stop").status();
  std::vector<Scalar> scalars;
  bool real = false;
  for (const Value* value : {start, stop, step}) {
    Scalar scalar;
    if (value != nullptr) {
      TENSORD_ASSIGN_OR_RETURN(scalar, NumberOf(read, "start, stop or step", *value));
      real = real || value->Is<double>();
    }
    scalars.push_back(scalar);
  }
  while (scalars.back().absent()) scalars.pop_back();
  if (create.spec.type.dtype == Dtype::kNone) create.spec.type.dtype = real ? Dtype::kFloat32 : Dtype::kInt64;
  return Finish(env, Op::kArange, read, std::move(scalars), std::move(create));
}

absl::StatusOr<Value> CallLinspace(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "linspace", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* start, read.Required("start"));
  TENSORD_ASSIGN_OR_RETURN(const Value* stop, read.Required("stop,end"));
  TENSORD_ASSIGN_OR_RETURN(const int64_t count, read.Integer("num,steps"));
  CreateAttributes create;
  TENSORD_ASSIGN_OR_RETURN(const bool endpoint, read.Bool("endpoint", true));
  create.exclude_stop = !endpoint;
  create.spec.type.shape = {count};
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", Dtype::kFloat32));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", ""));
  TENSORD_ASSIGN_OR_RETURN(const Scalar first, NumberOf(read, "start", *start));
  TENSORD_ASSIGN_OR_RETURN(const Scalar last, NumberOf(read, "stop", *stop));
  return Finish(env, Op::kLinspace, read, {first, last}, std::move(create));
}

absl::StatusOr<Value> CallEye(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "eye", arguments);
  CreateAttributes create;
  TENSORD_ASSIGN_OR_RETURN(const int64_t rows, read.Integer("n_rows,n"));
  TENSORD_ASSIGN_OR_RETURN(const int64_t columns, read.Integer("n_cols,m", rows));
  TENSORD_ASSIGN_OR_RETURN(create.diagonal, read.Integer("k,diagonal", 0));
  create.spec.type.shape = {rows, columns};
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", Dtype::kFloat32));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", ""));
  return Finish(env, Op::kEye, read, {}, std::move(create));
}

// full(2, 3, fill_value=7) as well as full((2, 3), 7).
absl::StatusOr<Value> CallFull(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "full", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* shape, read.Required("size,shape"));
  TENSORD_ASSIGN_OR_RETURN(const Value* fill, read.Required("fill_value"));
  CreateAttributes create;
  const std::optional<Dims> sizes = AsSizes(*shape);
  if (!sizes) return read.Invalid("size", *shape, "integers");
  create.spec.type.shape = *sizes;
  TENSORD_ASSIGN_OR_RETURN(const Scalar value, NumberOf(read, "fill_value", *fill));
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", NaturalDtype({value})));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", ""));
  return Finish(env, Op::kFull, read, {value}, std::move(create));
}

absl::StatusOr<Value> CallFilled(Env& env, Op op, std::string_view name, const Arguments& arguments) {
  ArgumentReader read(env, name, arguments);
  CreateAttributes create;
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.shape, read.Sizes("size,shape"));
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", Dtype::kFloat32));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", ""));
  read.Keyword("requires_grad");
  if (op == Op::kRand || op == Op::kRandn) {
    const Value* seed = read.Keyword("seed");
    TENSORD_RETURN_IF_ERROR(read.Finish());
    TENSORD_RETURN_IF_ERROR(SetSeed(env, seed, read, create));
  }
  return Finish(env, op, read, {}, std::move(create));
}

// ones_like(X): shape, dtype and device of X unless said otherwise.
absl::StatusOr<Value> CallLike(Env& env, Op op, std::string_view name, const Arguments& arguments) {
  ArgumentReader read(env, name, arguments);
  TENSORD_ASSIGN_OR_RETURN(const TensorPtr like, read.Tensor("x,input"));
  std::vector<Scalar> scalars;
  if (op == Op::kFull) {
    TENSORD_ASSIGN_OR_RETURN(const Value* fill, read.Required("fill_value"));
    TENSORD_ASSIGN_OR_RETURN(const Scalar value, NumberOf(read, "fill_value", *fill));
    scalars.push_back(value);
  }
  CreateAttributes create;
  create.spec.type.shape = like->spec.type.shape;
  TENSORD_ASSIGN_OR_RETURN(create.spec.type.dtype, read.DtypeOr("dtype", like->spec.type.dtype));
  TENSORD_ASSIGN_OR_RETURN(create.spec.device, read.DeviceOr("device", like->spec.device.ToString()));
  if (op == Op::kRand || op == Op::kRandn) {
    const Value* seed = read.Keyword("seed");
    TENSORD_RETURN_IF_ERROR(read.Finish());
    TENSORD_RETURN_IF_ERROR(SetSeed(env, seed, read, create));
  }
  return Finish(env, op, read, std::move(scalars), std::move(create));
}

enum class Form : uint8_t { kFilled, kLike, kFull, kArange, kLinspace, kEye, kTensor, kUpload };
struct Creator {
  std::string_view name;
  Form form;
  Op op;
};
constexpr auto kCreators = std::to_array<Creator>({{"zeros", Form::kFilled, Op::kZeros},
                                                   {"empty", Form::kFilled, Op::kZeros},
                                                   {"ones", Form::kFilled, Op::kOnes},
                                                   {"rand", Form::kFilled, Op::kRand},
                                                   {"randn", Form::kFilled, Op::kRandn},
                                                   {"zeros_like", Form::kLike, Op::kZeros},
                                                   {"empty_like", Form::kLike, Op::kZeros},
                                                   {"ones_like", Form::kLike, Op::kOnes},
                                                   {"full_like", Form::kLike, Op::kFull},
                                                   {"rand_like", Form::kLike, Op::kRand},
                                                   {"randn_like", Form::kLike, Op::kRandn},
                                                   {"full", Form::kFull, Op::kFull},
                                                   {"arange", Form::kArange, Op::kArange},
                                                   {"linspace", Form::kLinspace, Op::kLinspace},
                                                   {"eye", Form::kEye, Op::kEye},
                                                   {"tensor", Form::kTensor, Op::kConstant},
                                                   {"as_tensor", Form::kTensor, Op::kConstant},
                                                   {"asarray", Form::kTensor, Op::kConstant},
                                                   {"array", Form::kTensor, Op::kConstant},
                                                   {"constant", Form::kTensor, Op::kConstant},
                                                   {"upload", Form::kUpload, Op::kUpload}});

const Creator* FindCreator(std::string_view name) {
  const auto* it = std::find_if(kCreators.begin(), kCreators.end(), [&](const Creator& c) { return c.name == name; });
  return it == kCreators.end() ? nullptr : it;
}

}  // namespace

absl::StatusOr<TensorPtr> MakeConstant(Env& env, const Value& data, Dtype dtype, const std::string& device) {
  Literal literal;
  TENSORD_RETURN_IF_ERROR(Flatten(env, data, 0, literal));
  if (dtype == Dtype::kNone) dtype = NaturalDtype(literal.values);
  if (IsComplex(dtype)) {
    return Error(Reason::kOpUnsupported)
        .With("op", "tensor")
        .With("dtype", DtypeName(dtype))
        .With("device", device.empty() ? "cpu" : device)
        .With("supported", "all dtypes that are not complex");
  }
  ConstantAttributes constant;
  constant.spec.type = {dtype, literal.shape};
  constant.spec.device = device;
  const size_t size = ItemSize(dtype);
  constant.data.resize(literal.values.size() * size);
  for (size_t i = 0; i < literal.values.size(); ++i) {
    TENSORD_RETURN_IF_ERROR(StoreScalar(literal.values[i], dtype, constant.data.data() + i * size));
  }
  return env.graph->Apply(Op::kConstant, {}, std::move(constant));
}

absl::StatusOr<Value> SettleDevice(Env& env, TensorPtr tensor, const std::string& device) {
  if (!DeviceId::Parse(device)) {
    Wanted wanted{tensor, true, "", false, ""};
    TENSORD_RETURN_IF_ERROR(env.graph->Run(absl::MakeSpan(&wanted, 1)));
  }
  return Value(std::move(tensor));
}

bool IsCreator(std::string_view name) { return FindCreator(name) != nullptr; }

absl::StatusOr<Value> CallCreator(Env& env, std::string_view name, const Arguments& arguments) {
  const Creator& creator = *FindCreator(name);
  switch (creator.form) {
    case Form::kFilled:
      return CallFilled(env, creator.op, name, arguments);
    case Form::kLike:
      return CallLike(env, creator.op, name, arguments);
    case Form::kFull:
      return CallFull(env, arguments);
    case Form::kArange:
      return CallArange(env, arguments);
    case Form::kLinspace:
      return CallLinspace(env, arguments);
    case Form::kEye:
      return CallEye(env, arguments);
    case Form::kTensor:
      return CallTensor(env, name, arguments);
    case Form::kUpload:
      break;
  }
  return env.NotOffered("upload in expressions (tensorctl put FILE NAME uploads a file)");
}

}  // namespace tensord::expr
