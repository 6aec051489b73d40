#include "proto/wire/convert_model.h"

#include <map>
#include <string>
#include <utility>

#include "kernels/core/error.h"
#include "proto/wire/convert_compute.h"
#include "proto/wire/convert_tensor.h"
#include "proto/wire/parts.h"

namespace tensord::wire {
namespace {

using RefMap = google::protobuf::Map<std::string, v1::TensorRef>;

absl::StatusOr<LayerOption> DecodeOption(const v1::LayerOption& proto) {
  switch (proto.value_case()) {
    case v1::LayerOption::kScalar: {
      if (proto.scalar().value_case() == v1::Scalar::kText) return LayerOption{proto.scalar().text()};
      auto scalar = DecodeScalar(proto.scalar());
      if (!scalar.ok()) return Inside("scalar", scalar.status());
      return LayerOption{*std::move(scalar)};
    }
    case v1::LayerOption::kSizes:
      return LayerOption{CopyOf<std::vector<int64_t>>(proto.sizes().values())};
    case v1::LayerOption::VALUE_NOT_SET:
      break;
  }
  return FieldInvalid("scalar", "not set", "a scalar or sizes");
}

absl::StatusOr<Layer> DecodeLayer(const v1::Layer& proto, uint32_t depth) {
  const uint32_t maximum = RequestLimits().max_program_depth;
  if (depth > maximum) return LimitExceeded("max_program_depth", depth, maximum, "layers");
  Layer layer;
  layer.type = proto.type();
  layer.name = proto.name();
  // In the order of the names, so that of several errors always the same one is told.
  const std::map<std::string, v1::LayerOption> options(proto.options().begin(), proto.options().end());
  for (const auto& [name, in] : options) {
    auto option = DecodeOption(in);
    if (!option.ok()) return Inside(StrCat("options[", name, "]"), option.status());
    layer.options.emplace(name, *std::move(option));
  }
  for (int i = 0; i < proto.layers_size(); ++i) {
    auto inner = DecodeLayer(proto.layers(i), depth + 1);
    if (!inner.ok()) return Inside(StrCat("layers[", i, "]"), inner.status());
    layer.layers.push_back(*std::move(inner));
  }
  return layer;
}

void EncodeLayer(const Layer& layer, v1::Layer* proto) {
  proto->set_type(layer.type);
  proto->set_name(layer.name);
  for (const auto& [name, option] : layer.options) {
    v1::LayerOption& out = (*proto->mutable_options())[name];
    if (const auto* text = std::get_if<std::string>(&option.value)) {
      out.mutable_scalar()->set_text(*text);
    } else if (const auto* sizes = std::get_if<std::vector<int64_t>>(&option.value)) {
      CopyTo(*sizes, out.mutable_sizes()->mutable_values());
    } else {
      *out.mutable_scalar() = EncodeScalar(std::get<Scalar>(option.value));
    }
  }
  for (const Layer& inner : layer.layers) EncodeLayer(inner, proto->add_layers());
}

absl::StatusOr<std::map<std::string, TensorRef>> DecodeParameters(const RefMap& proto) {
  std::map<std::string, TensorRef> parameters;
  const std::map<std::string, v1::TensorRef> sorted(proto.begin(), proto.end());
  for (const auto& [path, in] : sorted) {
    auto ref = DecodeRef(in, Decoder());
    if (!ref.ok()) return Inside(StrCat("parameters[", path, "]"), ref.status());
    parameters.emplace(path, *std::move(ref));
  }
  return parameters;
}

void EncodeParameters(const std::map<std::string, TensorRef>& parameters, RefMap* proto) {
  for (const auto& [path, ref] : parameters) (*proto)[path] = ToProto(ref);
}

// Batches of at most one row are what this daemon does anyway.
absl::Status CheckBatching(const v1::Batching& proto) {
  v1::Batching rest = proto;
  if (rest.max_batch() <= 1) rest.clear_max_batch();
  return rest.ByteSizeLong() == 0 ? absl::OkStatus() : NotOffered("batching");
}

ModelState DecodeState(v1::ModelState state) {
  switch (state) {
    case v1::MODEL_STATE_READY:
      return ModelState::kReady;
    case v1::MODEL_STATE_FAILED:
      return ModelState::kFailed;
    case v1::MODEL_STATE_UNLOADING:
      return ModelState::kUnloading;
    default:
      return ModelState::kLoading;
  }
}

}  // namespace

absl::StatusOr<CreateModelRequest> FromProto(const v1::CreateModelRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  CreateModelRequest request;
  switch (proto.source_case()) {
    case v1::CreateModelRequest::kLayers: {
      auto layers = DecodeLayer(proto.layers(), 1);
      if (!layers.ok()) return Inside("layers", layers.status());
      request.layers = *std::move(layers);
      break;
    }
    case v1::CreateModelRequest::kOnnx:
      return NotOffered("model source onnx");
    case v1::CreateModelRequest::kProgram:
      return NotOffered("model source program");
    case v1::CreateModelRequest::kRepository:
      return FeatureUnavailable("repository");
    case v1::CreateModelRequest::SOURCE_NOT_SET:
      return FieldInvalid("layers", "not set", "a source: layers");
  }
  if (proto.has_weights()) return NotOffered("weights from a file");
  if (proto.has_batching()) TENSORD_RETURN_IF_ERROR(CheckBatching(proto.batching()));
  request.id = proto.id();
  request.name = proto.name();
  request.replace = proto.replace();
  request.devices = CopyOf<std::vector<std::string>>(proto.devices());
  TENSORD_ASSIGN_OR_RETURN(request.parameters, DecodeParameters(proto.parameters()));
  if (proto.has_seed()) request.seed = proto.seed();
  return request;
}

v1::CreateModelRequest ToProto(const CreateModelRequest& request) {
  v1::CreateModelRequest proto;
  proto.set_id(request.id);
  proto.set_name(request.name);
  proto.set_replace(request.replace);
  EncodeLayer(request.layers, proto.mutable_layers());
  for (const std::string& device : request.devices) proto.add_devices(device);
  EncodeParameters(request.parameters, proto.mutable_parameters());
  if (request.seed) proto.set_seed(*request.seed);
  return proto;
}

absl::StatusOr<GetModelRequest> FromProto(const v1::GetModelRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  auto model = DecodeRef(proto.model(), Decoder());
  if (!model.ok()) return Inside("model", model.status());
  return GetModelRequest{*std::move(model), proto.with_program()};
}

v1::GetModelRequest ToProto(const GetModelRequest& request) {
  v1::GetModelRequest proto;
  *proto.mutable_model() = ToProto(request.model);
  proto.set_with_program(request.with_program);
  return proto;
}

absl::StatusOr<ListModelsRequest> FromProto(const v1::ListModelsRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  return ListModelsRequest{proto.workspace(), proto.handles(), {proto.page_size(), proto.page_token()}};
}

v1::ListModelsRequest ToProto(const ListModelsRequest& request) {
  v1::ListModelsRequest proto;
  proto.set_workspace(request.workspace);
  proto.set_handles(request.handles);
  proto.set_page_size(request.page.page_size);
  proto.set_page_token(request.page.page_token);
  return proto;
}

absl::StatusOr<UpdateModelRequest> FromProto(const v1::UpdateModelRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  UpdateModelRequest request;
  auto model = DecodeRef(proto.model(), Decoder());
  if (!model.ok()) return Inside("model", model.status());
  request.model = *std::move(model);
  request.devices = CopyOf<std::vector<std::string>>(proto.devices());
  TENSORD_ASSIGN_OR_RETURN(request.parameters, DecodeParameters(proto.parameters()));
  if (proto.has_batching()) TENSORD_RETURN_IF_ERROR(CheckBatching(proto.batching()));
  return request;
}

v1::UpdateModelRequest ToProto(const UpdateModelRequest& request) {
  v1::UpdateModelRequest proto;
  *proto.mutable_model() = ToProto(request.model);
  for (const std::string& device : request.devices) proto.add_devices(device);
  EncodeParameters(request.parameters, proto.mutable_parameters());
  return proto;
}

absl::StatusOr<ModelRef> FromProto(const v1::DeleteModelRequest& proto) {
  TENSORD_RETURN_IF_ERROR(CheckRequest(proto));
  auto model = DecodeRef(proto.model(), Decoder());
  if (!model.ok()) return Inside("model", model.status());
  return model;
}

v1::DeleteModelRequest DeleteModelRequestToProto(const ModelRef& model) {
  v1::DeleteModelRequest proto;
  *proto.mutable_model() = ToProto(model);
  return proto;
}

absl::StatusOr<ModelInfo> FromProto(const v1::CreateModelResponse& proto) { return FromProto(proto.model()); }
v1::CreateModelResponse CreateModelResponseToProto(const ModelInfo& model) {
  v1::CreateModelResponse proto;
  *proto.mutable_model() = ToProto(model);
  return proto;
}

absl::StatusOr<ModelInfo> FromProto(const v1::GetModelResponse& proto) { return FromProto(proto.model()); }
v1::GetModelResponse GetModelResponseToProto(const ModelInfo& model) {
  v1::GetModelResponse proto;
  *proto.mutable_model() = ToProto(model);
  return proto;
}

absl::StatusOr<ModelInfo> FromProto(const v1::UpdateModelResponse& proto) { return FromProto(proto.model()); }
v1::UpdateModelResponse UpdateModelResponseToProto(const ModelInfo& model) {
  v1::UpdateModelResponse proto;
  *proto.mutable_model() = ToProto(model);
  return proto;
}

absl::StatusOr<ListModelsResponse> FromProto(const v1::ListModelsResponse& proto) {
  ListModelsResponse response;
  for (const v1::Model& in : proto.models()) {
    if (auto model = FromProto(in); model.ok()) response.models.push_back(*std::move(model));
  }
  response.next_page_token = proto.next_page_token();
  return response;
}

v1::ListModelsResponse ToProto(const ListModelsResponse& response) {
  v1::ListModelsResponse proto;
  for (const ModelInfo& model : response.models) *proto.add_models() = ToProto(model);
  proto.set_next_page_token(response.next_page_token);
  return proto;
}

absl::StatusOr<uint64_t> FromProto(const v1::DeleteModelResponse& proto) { return uint64_t{proto.freed_bytes()}; }
v1::DeleteModelResponse DeleteModelResponseToProto(uint64_t freed_bytes) {
  v1::DeleteModelResponse proto;
  proto.set_freed_bytes(freed_bytes);
  return proto;
}

absl::StatusOr<ModelInfo> FromProto(const v1::Model& proto) {
  Decoder decoder{.strict = false};
  ModelInfo model;
  model.id = proto.id();
  model.names = CopyOf<std::vector<std::string>>(proto.names());
  model.source = proto.source();
  model.state = DecodeState(proto.state());
  for (const std::string& device : proto.devices()) {
    if (const auto id = DecodeDevice(device)) model.devices.push_back(*id);
  }
  for (const v1::Value& value : proto.inputs()) {
    TENSORD_ASSIGN_OR_RETURN(model.inputs.emplace_back(), DecodeValue(value, decoder));
  }
  for (const v1::Value& value : proto.outputs()) {
    TENSORD_ASSIGN_OR_RETURN(model.outputs.emplace_back(), DecodeValue(value, decoder));
  }
  for (const v1::Parameter& parameter : proto.parameters()) {
    auto spec = DecodeSpec(parameter.spec());
    if (spec.ok()) model.parameters.push_back({parameter.path(), *std::move(spec)});
  }
  if (proto.has_program()) {
    TENSORD_ASSIGN_OR_RETURN(model.program, DecodeProgram(proto.program(), decoder));
  }
  model.parameter_bytes = proto.parameter_bytes();
  model.statistics = {proto.statistics().succeeded(), proto.statistics().failed(), proto.statistics().runs(),
                      proto.statistics().queue_ns(), proto.statistics().run_ns()};
  model.create_time = DecodeTime(proto.create_time());
  return model;
}

v1::Model ToProto(const ModelInfo& model) {
  v1::Model proto;
  proto.set_id(model.id);
  for (const std::string& name : model.names) proto.add_names(name);
  proto.set_source(model.source);
  proto.set_state(static_cast<v1::ModelState>(model.state));
  for (const DeviceId device : model.devices) proto.add_devices(device.ToString());
  for (const ProgramValue& value : model.inputs) *proto.add_inputs() = EncodeValue(value);
  for (const ProgramValue& value : model.outputs) *proto.add_outputs() = EncodeValue(value);
  for (const ParameterInfo& parameter : model.parameters) {
    v1::Parameter* out = proto.add_parameters();
    out->set_path(parameter.path);
    *out->mutable_spec() = ToProto(parameter.spec);
  }
  if (model.program) *proto.mutable_program() = ToProto(*model.program);
  proto.set_parameter_bytes(model.parameter_bytes);
  v1::ModelStatistics* statistics = proto.mutable_statistics();
  statistics->set_succeeded(model.statistics.succeeded);
  statistics->set_failed(model.statistics.failed);
  statistics->set_runs(model.statistics.runs);
  statistics->set_queue_ns(model.statistics.queue_ns);
  statistics->set_run_ns(model.statistics.run_ns);
  *proto.mutable_create_time() = EncodeTime(model.create_time);
  return proto;
}

}  // namespace tensord::wire
