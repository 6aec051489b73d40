#include "client/cli/execute.h"

#include <utility>

#include "client/cli/format.h"
#include "client/cli/json.h"
#include "kernels/core/error.h"
#include "server/engine/blocking.h"

namespace tensord::cli {

std::string_view ClientVersion() { return TENSORD_VERSION; }

std::string ClientName() { return StrCat("tensorctl/", ClientVersion()); }

absl::StatusOr<TensorInfo> ExecuteAs(Context& context, Program program, const std::vector<std::string>& inputs,
                                     const std::string& name) {
  ExecuteRequest request;
  request.callee = std::move(program);
  for (const std::string& input : inputs)
    request.inputs.push_back(Argument{"", TensorRef::Name(context.Qualified(input)), false});
  ResultRequest& result = request.outputs.emplace_back();
  result.publish = context.Qualified(name);
  result.replace = true;
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  TENSORD_ASSIGN_OR_RETURN(ExecuteResponse response, Await<ExecuteResponse>([&](auto done) {
                             engine->Execute(context.caller(), std::move(request), std::move(done));
                           }));
  if (response.outputs.size() != 1)
    return Error(Reason::kInternal).With("id", "-").With("cause", "one result expected");
  return std::move(response.outputs[0].tensor);
}

absl::StatusOr<std::vector<TensorInfo>> ListAllTensors(Context& context, const std::string& prefix) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  std::vector<TensorInfo> all;
  ListTensorsRequest request;
  request.workspace = context.workspace;
  request.prefix = prefix;
  do {
    TENSORD_ASSIGN_OR_RETURN(ListTensorsResponse page, engine->ListTensors(context.caller(), request));
    for (TensorInfo& info : page.tensors) all.push_back(std::move(info));
    request.page.page_token = page.next_page_token;
  } while (!request.page.page_token.empty());
  return all;
}

absl::StatusOr<std::vector<ModelInfo>> ListAllModels(Context& context, const std::string& prefix) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  std::vector<ModelInfo> all;
  ListModelsRequest request;
  request.workspace = context.workspace;
  do {
    TENSORD_ASSIGN_OR_RETURN(ListModelsResponse page, engine->ListModels(context.caller(), request));
    for (ModelInfo& info : page.models) {
      std::erase_if(info.names,
                    [&](const std::string& name) { return !name.substr(name.find('/') + 1).starts_with(prefix); });
      if (!info.names.empty()) all.push_back(std::move(info));
    }
    request.page.page_token = page.next_page_token;
  } while (!request.page.page_token.empty());
  return all;
}

absl::StatusOr<ModelInfo> CreateModel(Context& context, CreateModelRequest request) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  return Await<ModelInfo>(
      [&](auto done) { engine->CreateModel(context.caller(), std::move(request), std::move(done)); });
}

absl::StatusOr<ModelInfo> UpdateModel(Context& context, UpdateModelRequest request) {
  TENSORD_ASSIGN_OR_RETURN(Engine * engine, context.engine());
  return Await<ModelInfo>(
      [&](auto done) { engine->UpdateModel(context.caller(), std::move(request), std::move(done)); });
}

std::string ShortName(const Context& context, const std::string& name) {
  const size_t slash = name.find('/');
  if (slash == std::string::npos) return name;
  const std::string workspace = name.substr(0, slash);
  return workspace == context.workspace || context.workspace.empty() ? name.substr(slash + 1) : name;
}

std::string TensorInfoJson(const TensorInfo& info) {
  JsonObject json;
  json.Raw("names", JsonTexts(info.names))
      .Text("dtype", DtypeName(info.spec.type.dtype))
      .Raw("shape", ShapeText(info.spec.type.shape));
  json.Text("device", info.spec.device.ToString()).Number("bytes", info.bytes);
  json.Text("state", info.state == TensorState::kReady     ? "ready"
                     : info.state == TensorState::kPending ? "pending"
                     : info.state == TensorState::kFailed  ? "failed"
                                                           : "offloaded");
  json.Text("create_time", TimeText(info.create_time));
  json.MaybeText("expire_time", info.expire_time ? std::optional(TimeText(*info.expire_time)) : std::nullopt);
  return json.Bool("durable", info.durable).Done();
}

std::string ModelInfoJson(const ModelInfo& info) {
  std::vector<std::string> devices, parameters;
  for (const DeviceId& device : info.devices) devices.push_back(device.ToString());
  for (const ParameterInfo& p : info.parameters) {
    JsonObject parameter;
    parameter.Text("path", p.path)
        .Text("dtype", DtypeName(p.spec.type.dtype))
        .Raw("shape", ShapeText(p.spec.type.shape));
    parameters.push_back(parameter.Text("device", p.spec.device.ToString()).Done());
  }
  JsonObject json;
  json.Raw("names", JsonTexts(info.names)).Text("source", info.source).Raw("devices", JsonTexts(devices));
  json.Number("parameter_bytes", info.parameter_bytes);
  if (!parameters.empty()) json.Raw("parameters", JsonList(parameters));  // lists of models leave them out
  json.Number("succeeded", info.statistics.succeeded)
      .Number("failed", info.statistics.failed)
      .Number("runs", info.statistics.runs);
  return json.Text("create_time", TimeText(info.create_time)).Done();
}

}  // namespace tensord::cli
