// Functions that answer in the client: devices, numbers, printing, settings.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/elements.h"
#include "client/cpp/expr/functions.h"
#include "client/cpp/expr/op_call.h"
#include "client/cpp/expr/operators.h"
#include "client/cpp/expr/render.h"

namespace tensord::expr {
namespace {

absl::StatusOr<Value> TryGpu(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "try_gpu", arguments);
  TENSORD_ASSIGN_OR_RETURN(const int64_t index, read.Integer("i", 0));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  TENSORD_ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, env.Devices());
  for (const DeviceId& device : devices) {
    if (device.kind == DeviceKind::kCuda && device.index == index) return Value(DeviceValue{device});
  }
  return Value(DeviceValue{});
}

absl::StatusOr<Value> TryAllGpus(Env& env, const Arguments& arguments) {
  TENSORD_RETURN_IF_ERROR(ArgumentReader(env, "try_all_gpus", arguments).Finish());
  TENSORD_ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, env.Devices());
  std::vector<Value> list;
  for (const DeviceId& device : devices) {
    if (device.kind == DeviceKind::kCuda) list.emplace_back(DeviceValue{device});
  }
  if (list.empty()) list.emplace_back(DeviceValue{});
  return MakeList(std::move(list));
}

// device("cuda:1"), device("cuda", 1). Any number may be named; using it is another matter.
absl::StatusOr<Value> Device(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "device", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("type,device"));
  const Value* index = read.Optional("index");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  std::string text = AsDevice(*value).value_or("");
  if (index != nullptr) {
    if (!ToInteger(*index)) return read.Invalid("index", *index, "an integer");
    text = StrCat(text, ":", *ToInteger(*index));
  }
  if (const std::optional<DeviceId> id = text.empty() ? std::nullopt : DeviceId::Parse(text)) return Value(DeviceValue{*id});
  TENSORD_ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, env.Devices());
  std::vector<std::string> known;
  for (const DeviceId& device : devices) known.push_back(device.ToString());
  return Error(Reason::kDeviceUnknown).With("device", text.empty() ? BriefText(*value) : text).With("known", StrJoin(known, ", "));
}

absl::StatusOr<Value> CudaIsAvailable(Env& env, const Arguments& arguments) {
  TENSORD_ASSIGN_OR_RETURN(const Value devices, TryAllGpus(env, arguments));
  return Value((*devices.As<ListPtr>())->items.front().As<DeviceValue>()->id.kind == DeviceKind::kCuda);
}

absl::StatusOr<Value> CudaDeviceCount(Env& env, const Arguments& arguments) {
  TENSORD_ASSIGN_OR_RETURN(const Value devices, TryAllGpus(env, arguments));
  const auto& items = (*devices.As<ListPtr>())->items;
  const bool any = items.front().As<DeviceValue>()->id.kind == DeviceKind::kCuda;
  return Value(any ? static_cast<int64_t>(items.size()) : int64_t{0});
}

absl::StatusOr<Value> CudaEmptyCache(Env& env, const Arguments& arguments) {
  TENSORD_RETURN_IF_ERROR(ArgumentReader(env, "cuda.empty_cache", arguments).Finish());
  TENSORD_RETURN_IF_ERROR(env.graph->session().engine().TrimMemory(env.graph->session().caller(), {}).status());
  return Value();
}

absl::StatusOr<Value> ManualSeed(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "manual_seed", arguments);
  TENSORD_ASSIGN_OR_RETURN(const int64_t seed, read.Integer("seed"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  env.generator = {static_cast<uint64_t>(seed), 0};
  return Value();
}

absl::StatusOr<Value> Print(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "print", arguments);
  std::vector<std::string> parts;
  for (const Value& value : arguments.positional) {
    read.Optional("values");
    const std::string* text = value.As<std::string>();
    if (text != nullptr && !env.json) {
      parts.push_back(*text);
    } else if (env.json) {
      TENSORD_ASSIGN_OR_RETURN(const std::string json, RenderJson(env, value));
      env.out(json + "\n");
    } else {
      TENSORD_ASSIGN_OR_RETURN(std::string shown, RenderText(env, value));
      parts.push_back(std::move(shown));
    }
  }
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (!env.json) env.out(StrJoin(parts, " ") + "\n");
  return Value();
}

absl::StatusOr<Value> SetPrintOptions(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "set_printoptions", arguments);
  PrintOptions options = env.print;
  TENSORD_ASSIGN_OR_RETURN(const int64_t precision, read.Integer("precision", options.precision));
  TENSORD_ASSIGN_OR_RETURN(options.threshold, read.Integer("threshold", options.threshold));
  TENSORD_ASSIGN_OR_RETURN(options.edgeitems, read.Integer("edgeitems", options.edgeitems));
  TENSORD_ASSIGN_OR_RETURN(const int64_t linewidth, read.Integer("linewidth", options.linewidth));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (precision < 0 || precision > 17) return read.Invalid("precision", Value(precision), "0 to 17");
  if (options.edgeitems < 1 || options.edgeitems > 1000) return read.Invalid("edgeitems", Value(options.edgeitems), "1 to 1000");
  if (linewidth < 1 || linewidth > 1000000) return read.Invalid("linewidth", Value(linewidth), "1 to 1000000");
  options.precision = static_cast<int>(precision);
  options.linewidth = static_cast<int>(linewidth);
  env.print = options;
  return Value();
}

absl::StatusOr<Value> Len(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "len", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (const ListPtr* list = value->As<ListPtr>()) return Value(static_cast<int64_t>((*list)->items.size()));
  if (const std::string* text = value->As<std::string>()) return Value(static_cast<int64_t>(text->size()));
  if (const TensorPtr* tensor = value->As<TensorPtr>()) {
    if (!(*tensor)->spec.type.shape.empty()) return Value((*tensor)->spec.type.shape[0]);
    return env.Problem("a 0-d tensor has no length");
  }
  return env.Problem(StrCat(value->KindText(), " has no length"));
}

// The argument as a number: of a tensor its one element.
absl::StatusOr<Value> NumberArgument(Env& env, std::string_view name, const Arguments& arguments) {
  ArgumentReader read(env, name, arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (const TensorPtr* tensor = value->As<TensorPtr>()) return ItemOf(env, *tensor);
  if (!value->IsNumber()) return read.Invalid("x", *value, "a number, or a tensor of one element");
  return *value;
}

absl::StatusOr<Value> ToFloat(Env& env, const Arguments& arguments) {
  if (arguments.positional.size() == 1) {
    if (const std::string* text = arguments.positional[0].As<std::string>()) {
      if (*text == "inf" || *text == "+inf" || *text == "infinity") return Value(static_cast<double>(HUGE_VAL));
      if (*text == "-inf" || *text == "-infinity") return Value(-static_cast<double>(HUGE_VAL));
      if (*text == "nan") return Value(std::nan(""));
    }
  }
  TENSORD_ASSIGN_OR_RETURN(const Value number, NumberArgument(env, "float", arguments));
  return Value(ToScalar(number).AsDouble());
}

absl::StatusOr<Value> ToInt(Env& env, const Arguments& arguments) {
  TENSORD_ASSIGN_OR_RETURN(const Value number, NumberArgument(env, "int", arguments));
  const double* real = number.As<double>();
  if (real == nullptr) return number.Is<uint64_t>() ? number : Value(ToScalar(number).AsInt64());
  if (!(std::fabs(*real) < 9.2e18)) return env.Problem(StrCat("int: ", PythonReal(*real), " is no 64-bit integer"));
  return Value(static_cast<int64_t>(*real));
}

absl::StatusOr<Value> ToBool(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "bool", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("x"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  TENSORD_ASSIGN_OR_RETURN(const bool truth, Truth(env, *value));
  return Value(truth);
}

template <bool kTuple>
absl::StatusOr<Value> ToList(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, kTuple ? "tuple" : "list", arguments);
  const Value* value = read.Optional("x");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (value == nullptr) return MakeList({}, kTuple);
  const ListPtr* list = value->As<ListPtr>();
  if (list == nullptr) return read.Invalid("x", *value, "a list or a tuple");
  auto copy = std::make_shared<ListValue>(**list);
  copy->tuple = kTuple;
  return Value(ListPtr(std::move(copy)));
}

absl::StatusOr<Value> Range(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "range", arguments);
  TENSORD_ASSIGN_OR_RETURN(int64_t start, read.Integer("start"));
  const Value* second = read.Optional("stop");
  TENSORD_ASSIGN_OR_RETURN(const int64_t step, read.Integer("step", 1));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  int64_t stop = start;
  if (second == nullptr) {
    start = 0;
  } else if (const std::optional<int64_t> integer = ToInteger(*second)) {
    stop = *integer;
  } else {
    return read.Invalid("stop", *second, "an integer");
  }
  constexpr int64_t kMost = 100000;
  if (step == 0) return read.Invalid("step", Value(step), "an integer that is not 0");
  std::vector<Value> items;
  for (__int128 i = start; step > 0 ? i < stop : i > stop; i += step) {
    if (static_cast<int64_t>(items.size()) == kMost) return env.Problem(StrCat("range: a list has at most ", kMost, " items; arange makes a tensor"));
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(std::move(items));
}

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

absl::StatusOr<Value> Help(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "help", arguments);
  const Value* value = read.Optional("name");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  std::string name;
  if (value != nullptr) {
    const Function* function = value->As<Function>();
    const std::string* text = value->As<std::string>();
    if (function != nullptr) name = function->name;
    if (text != nullptr) name = *text;
  }
  if (name.empty()) {
    env.out("help(add) tells about one function; `tensorctl ops` lists them all; the word help alone shows the tutorial\n");
    return Value();
  }
  const Op op = FindCallableOp(name);
  if (op == Op::kNone) {
    if (!IsFunction(name)) return UnknownName(env, name, FunctionNames());
    env.out(StrCat(name, ": built into the client\n"));
    return Value();
  }
  const OpRow& row = RowOf(op);
  env.out(StrCat(row.name, "(", row.operands, row.fields.empty() || row.operands.empty() ? "" : ", ", row.fields, ")\n    ", row.summary, "\n"));
  return Value();
}

absl::StatusOr<Value> Item(Env& env, const Arguments& arguments) { return NumberArgument(env, "item", arguments); }

Value NestElements(const TensorType& type, absl::Span<const int64_t> shape, std::string_view data, size_t& next) {
  if (shape.empty()) {
    const size_t size = ItemSize(type.dtype);
    const Element element = ReadElement(type.dtype, data.data() + size * next++);
    if (const uint64_t* u = std::get_if<uint64_t>(&element); u != nullptr && *u <= INT64_MAX) return Value(static_cast<int64_t>(*u));
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
    return env.Problem(StrCat("tolist: a list has at most ", kMost, " items; `tensorctl get NAME FILE.npy` brings large tensors home"));
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
  if (*at < -rank || *at >= rank) return Error(Reason::kAxisInvalid).With("op", "size").With("axis", *at).With("rank", rank);
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

constexpr auto kFunctions = std::to_array<Builtin>({{"try_gpu", TryGpu},
                                                    {"try_all_gpus", TryAllGpus},
                                                    {"device", Device},
                                                    {"cuda.is_available", CudaIsAvailable},
                                                    {"cuda.device_count", CudaDeviceCount},
                                                    {"cuda.empty_cache", CudaEmptyCache},
                                                    {"manual_seed", ManualSeed},
                                                    {"print", Print},
                                                    {"set_printoptions", SetPrintOptions},
                                                    {"help", Help},
                                                    {"len", Len},
                                                    {"float", ToFloat},
                                                    {"int", ToInt},
                                                    {"bool", ToBool},
                                                    {"list", ToList<false>},
                                                    {"tuple", ToList<true>},
                                                    {"range", Range},
                                                    {"allclose", AllClose},
                                                    {"take", Take},
                                                    {"index_select", IndexSelect},
                                                    {"numel", Elements}});

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

absl::Span<const Builtin> HostFunctions() { return kFunctions; }
absl::Span<const Builtin> HostMethods() { return kMethods; }

}  // namespace tensord::expr
