#include "client/cpp/expr/models.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/elements.h"
#include "client/cpp/expr/functions.h"
#include "kernels/core/nearest.h"
#include "server/engine/blocking.h"

namespace tensord::expr {
namespace {

std::string Joined(std::string_view path, std::string_view part) {
  return path.empty() ? std::string(part) : StrCat(path, ".", part);
}

ModelPtr WithInfo(ModelInfo info, ModelRef ref, std::shared_ptr<void> handle, LayersPtr layers) {
  auto model = std::make_shared<ModelValue>();
  model->ref = std::move(ref);
  model->info = std::move(info);
  model->handle = std::move(handle);
  model->layers = std::move(layers);
  return model;
}

absl::StatusOr<std::vector<std::string>> ReadDevices(Env& env, std::string_view method, const Arguments& arguments) {
  ArgumentReader read(env, method, arguments);
  if (method == "cpu") {
    TENSORD_RETURN_IF_ERROR(read.Finish());
    return std::vector<std::string>{"cpu"};
  }
  const Value* value = read.Optional("device,devices");
  TENSORD_RETURN_IF_ERROR(read.Finish());
  if (value == nullptr) {
    if (method == "cuda") return std::vector<std::string>{"cuda:0"};
    return read.Required("device").status();
  }
  std::vector<std::string> devices;
  std::vector<Value> items{*value};
  if (const ListPtr* list = value->As<ListPtr>()) items = (*list)->items;
  for (const Value& item : items) {
    std::optional<std::string> device = AsDevice(item);
    if (!device) return read.Invalid("device", item, "a device, or a list of devices (a replica on each)");
    devices.push_back(*std::move(device));
  }
  return devices;
}

absl::StatusOr<Value> Move(Env& env, const ModelPtr& model, std::vector<std::string> devices) {
  if (!model->path.empty()) return env.NotOffered("moving a part of a model (the whole moves)");
  std::vector<DeviceId> wanted;
  for (const std::string& device : devices) {
    const std::optional<DeviceId> id = DeviceId::Parse(device);
    if (id) wanted.push_back(*id);
  }
  if (wanted == model->info.devices) return Value(model);
  UpdateModelRequest request;
  request.model = model->ref;
  request.devices = std::move(devices);
  ClientSession& session = env.graph->session();
  TENSORD_ASSIGN_OR_RETURN(ModelInfo info, Await<ModelInfo>([&](auto done) {
                             session.engine().UpdateModel(session.caller(), request, std::move(done));
                           }));
  return Value(WithInfo(std::move(info), model->ref, model->handle, model->layers));
}

TensorPtr ParameterTensor(const ModelValue& model, const ParameterInfo& parameter) {
  TensorInfo info;
  info.spec = parameter.spec;
  TensorRef ref;
  ref.ref = TensorRef::Parameter{model.ref, parameter.path};
  return ExistingTensor(std::move(info), std::move(ref), model.handle);
}

bool IsBelow(std::string_view path, std::string_view parent) {
  return parent.empty() || path == parent || (path.starts_with(parent) && path.substr(parent.size()).starts_with('.'));
}

Value Parameters(const ModelValue& model, bool named) {
  auto list = std::make_shared<ListValue>();
  list->one_per_line = true;
  for (const ParameterInfo& parameter : model.info.parameters) {
    if (!IsBelow(parameter.path, model.path)) continue;
    Value tensor(ParameterTensor(model, parameter));
    std::string_view path = parameter.path;
    if (!model.path.empty()) path.remove_prefix(std::min(path.size(), model.path.size() + 1));
    list->items.push_back(named ? MakeList({Value(std::string(path)), std::move(tensor)}, true) : std::move(tensor));
  }
  return Value(ListPtr(std::move(list)));
}

// The layer at a path, where this session wrote the model down.
const Layer* LayerAt(const ModelValue& model) {
  if (!model.layers) return nullptr;
  const Layer* layer = &model.layers->layer;
  std::string_view path = model.path;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('.'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    const Layer* next = nullptr;
    for (size_t i = 0; i < layer->layers.size(); ++i) {
      const Layer& child = layer->layers[i];
      if (child.name.empty() ? std::to_string(i) == part : child.name == part) next = &child;
    }
    if (next == nullptr) return nullptr;
    layer = next;
  }
  return layer;
}

// How many layers the paths of parameters tell of. Layers without any after the last one that has some are not
// among them: only the session that made the model knows these.
int64_t KnownLayers(const ModelValue& model) {
  int64_t count = 0;
  for (const ParameterInfo& parameter : model.info.parameters) {
    if (!IsBelow(parameter.path, model.path)) continue;
    std::string_view path = parameter.path;
    if (!model.path.empty()) path.remove_prefix(std::min(path.size(), model.path.size() + 1));
    const size_t point = path.find('.');
    int64_t index = 0;
    if (point == std::string_view::npos) continue;
    const auto [end, error] = std::from_chars(path.data(), path.data() + point, index);
    if (error == std::errc() && end == path.data() + point) count = std::max(count, index + 1);
  }
  return count;
}

constexpr auto kMethods =
    std::to_array<std::string_view>({"to", "cpu", "cuda", "eval", "forward", "parameters", "named_parameters",
                                     "state_dict", "train", "requires_grad_"});

}  // namespace

bool IsModelMethod(std::string_view name) {
  return std::find(kMethods.begin(), kMethods.end(), name) != kMethods.end();
}

absl::StatusOr<ModelPtr> CreateModel(Env& env, const LayersPtr& layers, const std::string& name) {
  ClientSession& session = env.graph->session();
  CreateModelRequest request;
  request.name = name;
  request.replace = !name.empty();
  if (name.empty()) request.id = session.NewId();
  request.layers = layers->layer;
  if (!layers->device.empty()) request.devices = {layers->device};
  if (env.generator.seed) {
    // Each model its own numbers, all of them from the one seed: a step of SplitMix64.
    uint64_t z = *env.generator.seed + 0x9e3779b97f4a7c15ULL * ++env.generator.drawn;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    request.seed = z ^ (z >> 31);
  }
  const uint64_t id = request.id;
  TENSORD_ASSIGN_OR_RETURN(ModelInfo info, Await<ModelInfo>([&](auto done) {
                             session.engine().CreateModel(session.caller(), std::move(request), std::move(done));
                           }));
  if (!name.empty()) return WithInfo(std::move(info), ModelRef{0, name}, nullptr, layers);
  return WithInfo(std::move(info), ModelRef{id, ""}, session.OwnModel(id), layers);
}

absl::StatusOr<Value> CallModel(Env& env, const ModelPtr& model, const Arguments& arguments) {
  if (!model->path.empty()) return env.NotOffered("calling a part of a model (the whole runs)");
  ExecuteRequest request;
  request.callee = model->ref;
  std::vector<Wanted> pending;
  std::vector<std::pair<std::string, Value>> inputs;
  for (const Value& value : arguments.positional) inputs.emplace_back("", value);
  inputs.insert(inputs.end(), arguments.keywords.begin(), arguments.keywords.end());
  for (const auto& [name, value] : inputs) {
    const TensorPtr* tensor = value.As<TensorPtr>();
    if (tensor == nullptr) return env.Problem(StrCat("a model takes tensors, not ", value.KindText()));
    if (!(*tensor)->exists()) pending.push_back({*tensor, true, "", false, ""});
  }
  TENSORD_RETURN_IF_ERROR(env.graph->Run(absl::MakeSpan(pending)));
  for (const auto& [name, value] : inputs) request.inputs.push_back({name, (*value.As<TensorPtr>())->ref, false});
  ClientSession& session = env.graph->session();
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < std::max<size_t>(model->info.outputs.size(), 1); ++i) {
    ResultRequest& result = request.outputs.emplace_back();
    result.id = session.NewId();
    ids.push_back(result.id);
  }
  TENSORD_ASSIGN_OR_RETURN(ExecuteResponse response, Await<ExecuteResponse>([&](auto done) {
                             session.engine().Execute(session.caller(), std::move(request), std::move(done));
                           }));
  std::vector<Value> outputs;
  for (size_t i = 0; i < std::min(ids.size(), response.outputs.size()); ++i) {
    outputs.emplace_back(
        ExistingTensor(std::move(response.outputs[i].tensor), TensorRef::Id(ids[i]), session.OwnTensor(ids[i])));
  }
  if (outputs.size() == 1) return std::move(outputs.front());
  return MakeList(std::move(outputs), /*tuple=*/true);
}

absl::StatusOr<Value> CallModelMethod(Env& env, std::string_view name, const ModelPtr& model,
                                      const Arguments& arguments) {
  if (name == "forward") return CallModel(env, model, arguments);
  if (name == "to" || name == "cpu" || name == "cuda") {
    TENSORD_ASSIGN_OR_RETURN(std::vector<std::string> devices, ReadDevices(env, name, arguments));
    return Move(env, model, std::move(devices));
  }
  if (name == "parameters" || name == "named_parameters" || name == "state_dict") {
    TENSORD_RETURN_IF_ERROR(ArgumentReader(env, name, arguments).Finish());
    return Parameters(*model, name != "parameters");
  }
  if (name == "eval") {
    TENSORD_RETURN_IF_ERROR(ArgumentReader(env, name, arguments).Finish());
    return Value(model);
  }
  if (IsModelMethod(name)) return env.NotOffered(StrCat(name, " (training)"));
  return UnknownName(env, name, kMethods);
}

absl::StatusOr<Value> CallLayersMethod(Env& env, std::string_view name, const LayersPtr& layers,
                                       const Arguments& arguments) {
  if (name == "to" || name == "cpu" || name == "cuda") {
    TENSORD_ASSIGN_OR_RETURN(const std::vector<std::string> devices, ReadDevices(env, name, arguments));
    auto moved = std::make_shared<LayersValue>(*layers);
    moved->device = devices.empty() ? "" : devices.front();
    return Value(LayersPtr(std::move(moved)));
  }
  if (name == "eval") return Value(layers);
  TENSORD_ASSIGN_OR_RETURN(const ModelPtr model, CreateModel(env, layers, ""));
  return CallModelMethod(env, name, model, arguments);
}

absl::StatusOr<Value> IndexModel(Env& env, const Value& value, const Value& part) {
  const std::optional<int64_t> given = ToInteger(part);
  if (!given) return env.Problem(StrCat("a layer is chosen by an integer, not ", BriefText(part)));
  if (const LayersPtr* layers = value.As<LayersPtr>()) {
    const auto size = static_cast<int64_t>((*layers)->layer.layers.size());
    const int64_t at = *given < 0 ? *given + size : *given;
    if (at < 0 || at >= size)
      return Error(Reason::kIndexOutOfRange)
          .With("op", "index")
          .With("index", *given)
          .With("axis", 0)
          .With("size", size);
    return Value(LayersPtr(std::make_shared<LayersValue>(
        LayersValue{(*layers)->layer.layers[static_cast<size_t>(at)], (*layers)->device})));
  }
  const ModelPtr& model = *value.As<ModelPtr>();
  int64_t at = *given;
  if (const Layer* layer = LayerAt(*model)) {
    const auto size = static_cast<int64_t>(layer->layers.size());
    if (at < 0) at += size;
    if (at < 0 || at >= size)
      return Error(Reason::kIndexOutOfRange)
          .With("op", "index")
          .With("index", *given)
          .With("axis", 0)
          .With("size", size);
  } else if (at < 0) {
    return env.Problem("layers of a model that another session made are counted from the front");
  } else if (const int64_t size = KnownLayers(*model); at >= size) {
    return Error(Reason::kIndexOutOfRange).With("op", "index").With("index", *given).With("axis", 0).With("size", size);
  }
  auto child = std::make_shared<ModelValue>(*model);
  child->path = Joined(model->path, std::to_string(at));
  return Value(ModelPtr(std::move(child)));
}

absl::StatusOr<Value> ModelAttribute(std::string_view name, const ModelPtr& model) {
  const std::string path = Joined(model->path, name);
  std::vector<std::string_view> known;
  bool below = false;
  for (const ParameterInfo& parameter : model->info.parameters) {
    if (parameter.path == path) return Value(ParameterTensor(*model, parameter));
    known.push_back(parameter.path);
    below = below || IsBelow(parameter.path, path);
  }
  if (below) {
    auto child = std::make_shared<ModelValue>(*model);
    child->path = path;
    return Value(ModelPtr(std::move(child)));
  }
  if (name == "device" && !model->info.devices.empty()) return Value(DeviceValue{model->info.devices.front()});
  if (name == "devices") {
    std::vector<Value> devices;
    for (const DeviceId& device : model->info.devices) devices.emplace_back(DeviceValue{device});
    return MakeList(std::move(devices));
  }
  if (name == "training") return Value(false);
  Error error(Reason::kParameterUnknown);
  const std::string& shown = model->ref.name;
  error = std::move(error).With("model", shown.empty() ? StrCat("#", model->ref.id) : shown).With("path", path);
  if (const std::string nearest = NearestNames(path, known); !nearest.empty())
    error = std::move(error).With("nearest", nearest);
  return error;
}

std::string ModelText(const ModelValue& model) {
  if (const Layer* layer = LayerAt(model)) return LayerText(*layer);
  std::vector<std::string> lines;
  for (const ParameterInfo& parameter : model.info.parameters) {
    if (IsBelow(parameter.path, model.path))
      lines.push_back(StrCat("  (", parameter.path, "): ", parameter.spec.ToString(), "\n"));
  }
  return lines.empty() ? std::string("Model()") : StrCat("Model(\n", StrJoin(lines, ""), ")");
}

std::string ModelJson(const ModelValue& model) {
  std::vector<std::string> devices, parameters, names;
  for (const DeviceId& device : model.info.devices) devices.push_back(JsonString(device.ToString()));
  for (const std::string& name : model.info.names) names.push_back(JsonString(name));
  for (const ParameterInfo& p : model.info.parameters) {
    if (!IsBelow(p.path, model.path)) continue;
    parameters.push_back(StrCat("{\"path\":", JsonString(p.path), ",\"dtype\":\"", DtypeName(p.spec.type.dtype),
                                "\",\"shape\":", ShapeText(p.spec.type.shape), ",\"device\":\"",
                                p.spec.device.ToString(), "\"}"));
  }
  return StrCat("{\"model\":{\"names\":[", StrJoin(names, ","), "],\"devices\":[", StrJoin(devices, ","),
                "],\"parameters\":[", StrJoin(parameters, ","), "]}}");
}

}  // namespace tensord::expr
