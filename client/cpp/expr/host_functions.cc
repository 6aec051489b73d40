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
  if (const std::optional<DeviceId> id = text.empty() ? std::nullopt : DeviceId::Parse(text))
    return Value(DeviceValue{*id});
  TENSORD_ASSIGN_OR_RETURN(const std::vector<DeviceId> devices, env.Devices());
  std::vector<std::string> known;
  for (const DeviceId& device : devices) known.push_back(device.ToString());
  return Error(Reason::kDeviceUnknown)
      .With("device", text.empty() ? BriefText(*value) : text)
      .With("known", StrJoin(known, ", "));
}

// named("encoder.weight"): a published name that is no name of the language.
absl::StatusOr<Value> Named(Env& env, const Arguments& arguments) {
  ArgumentReader read(env, "named", arguments);
  TENSORD_ASSIGN_OR_RETURN(const Value* value, read.Required("name"));
  TENSORD_RETURN_IF_ERROR(read.Finish());
  const std::string* name = value->As<std::string>();
  if (name == nullptr) return read.Invalid("name", *value, "a string");
  TENSORD_ASSIGN_OR_RETURN(std::optional<Value> found, env.look_up(*name));
  if (!found) return Error(Reason::kNameUnknown).With("name", *name).With("kind", "tensor or model");
  return *std::move(found);
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
  if (options.edgeitems < 1 || options.edgeitems > 1000)
    return read.Invalid("edgeitems", Value(options.edgeitems), "1 to 1000");
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
    if (static_cast<int64_t>(items.size()) == kMost)
      return env.Problem(StrCat("range: a list has at most ", kMost, " items; arange makes a tensor"));
    items.emplace_back(static_cast<int64_t>(i));
  }
  return MakeList(std::move(items));
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
    env.out(
        "help(add) tells about one function; `tensorctl ops` lists them all; the word help alone shows the tutorial\n");
    return Value();
  }
  const Op op = FindCallableOp(name);
  if (op == Op::kNone) {
    if (!IsFunction(name)) return UnknownName(env, name, FunctionNames());
    env.out(StrCat(name, ": built into the client\n"));
    return Value();
  }
  const OpRow& row = RowOf(op);
  env.out(StrCat(row.name, "(", row.operands, row.fields.empty() || row.operands.empty() ? "" : ", ", row.fields,
                 ")\n    ", row.summary, "\n"));
  return Value();
}

constexpr auto kFunctions = std::to_array<Builtin>({{"try_gpu", TryGpu},
                                                    {"try_all_gpus", TryAllGpus},
                                                    {"device", Device},
                                                    {"named", Named},
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
                                                    {"range", Range}});

}  // namespace

absl::Span<const Builtin> HostFunctions() { return kFunctions; }

}  // namespace tensord::expr
