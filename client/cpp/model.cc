#include "tensord/model.h"

#include <utility>

#include "client/cpp/emit.h"
#include "kernels/core/error.h"
#include "server/engine/blocking.h"
#include "tensord/client.h"

namespace tensord::client {
namespace {

absl::Status NoModel() { return absl::FailedPreconditionError("no model: it was never made, or moved from"); }

tensord::LayerOption ToOption(const nn::Layer::Option& option) {
  struct Visitor {
    tensord::LayerOption operator()(bool v) const { return {Scalar{.value = v}}; }
    tensord::LayerOption operator()(int64_t v) const { return {Scalar{.value = v}}; }
    tensord::LayerOption operator()(double v) const { return {Scalar{.value = v}}; }
    tensord::LayerOption operator()(const std::string& v) const { return {v}; }
    tensord::LayerOption operator()(const std::vector<int64_t>& v) const { return {v}; }
  };
  return std::visit(Visitor(), option);
}

tensord::Layer ToLayer(const nn::Layer& layer) {
  tensord::Layer out;
  out.type = layer.type;
  out.name = layer.name;
  for (const auto& [key, value] : layer.options) out.options[key] = ToOption(value);
  for (const nn::Layer& child : layer.layers) out.layers.push_back(ToLayer(child));
  return out;
}

}  // namespace

namespace nn {
namespace {

std::vector<int64_t> Pair(Size2 size) { return {size.height, size.width}; }

Layer Pool(std::string type, Size2 kernel_size, const PoolOptions& options) {
  Layer layer{
      .type = std::move(type),
      .options = {
          {"kernel_size", Pair(kernel_size)}, {"padding", Pair(options.padding)}, {"ceil_mode", options.ceil_mode}}};
  if (options.stride) layer.options["stride"] = Pair(*options.stride);
  return layer;
}

}  // namespace

Layer Sequential(std::vector<Layer> layers) { return {.type = "Sequential", .layers = std::move(layers)}; }
Layer Linear(int64_t in_features, int64_t out_features, bool bias) {
  return {.type = "Linear", .options = {{"in_features", in_features}, {"out_features", out_features}, {"bias", bias}}};
}
Layer Conv2d(int64_t in_channels, int64_t out_channels, Size2 kernel_size, const Conv2dOptions& options) {
  return {.type = "Conv2d",
          .options = {{"in_channels", in_channels},
                      {"out_channels", out_channels},
                      {"kernel_size", Pair(kernel_size)},
                      {"stride", Pair(options.stride)},
                      {"padding", Pair(options.padding)},
                      {"dilation", Pair(options.dilation)},
                      {"groups", options.groups},
                      {"bias", options.bias}}};
}
Layer BatchNorm1d(int64_t num_features, double eps) {
  return {.type = "BatchNorm1d", .options = {{"num_features", num_features}, {"eps", eps}}};
}
Layer BatchNorm2d(int64_t num_features, double eps) {
  return {.type = "BatchNorm2d", .options = {{"num_features", num_features}, {"eps", eps}}};
}
Layer LayerNorm(std::vector<int64_t> normalized_shape, double eps) {
  return {.type = "LayerNorm", .options = {{"normalized_shape", std::move(normalized_shape)}, {"eps", eps}}};
}
Layer Dropout(double p) { return {.type = "Dropout", .options = {{"p", p}}}; }
Layer ReLU() { return {.type = "ReLU"}; }
Layer GELU() { return {.type = "GELU"}; }
Layer SiLU() { return {.type = "SiLU"}; }
Layer Sigmoid() { return {.type = "Sigmoid"}; }
Layer Tanh() { return {.type = "Tanh"}; }
Layer Softmax(int64_t dim) { return {.type = "Softmax", .options = {{"dim", dim}}}; }
Layer MaxPool2d(Size2 kernel_size, const PoolOptions& options) { return Pool("MaxPool2d", kernel_size, options); }
Layer AvgPool2d(Size2 kernel_size, const PoolOptions& options) { return Pool("AvgPool2d", kernel_size, options); }
Layer Flatten(int64_t start_dim, int64_t end_dim) {
  return {.type = "Flatten", .options = {{"start_dim", start_dim}, {"end_dim", end_dim}}};
}

}  // namespace nn

Model::Model() = default;
Model::Model(std::shared_ptr<ModelHandle> handle) : handle_(std::move(handle)) {}
Model::~Model() = default;
Model::Model(const Model&) = default;
Model& Model::operator=(const Model&) = default;
Model::Model(Model&&) noexcept = default;
Model& Model::operator=(Model&&) noexcept = default;

absl::StatusOr<Model> Client::create_model(const nn::Layer& layers, const ModelOptions& options) const {
  CreateModelRequest request;
  request.id = session_->NewIds();
  request.layers = ToLayer(layers);
  if (!options.device.empty()) request.devices.push_back(options.device);
  request.seed = options.seed;
  for (const auto& [path, tensor] : options.parameters) {
    if (!tensor.handle()->session()) return tensor.handle()->known()->status();
    request.parameters[path] = TensorRef::Id(tensor.handle()->id());
  }
  const uint64_t id = request.id;
  const Caller caller = session_->OrderedCaller();
  TENSORD_RETURN_IF_ERROR(Await<ModelInfo>([&](auto done) {
                            session_->engine().CreateModel(caller, std::move(request), std::move(done));
                          }).status());
  return Model(std::make_shared<ModelHandle>(session_, ModelRef{.id = id, .name = {}}));
}

Tensor Model::forward(const std::vector<Tensor>& inputs) const {
  if (!handle_) return Failed(NoModel());
  return Emit(Op::kCall, {inputs.begin(), inputs.end()}, CallAttributes{.program = 0, .model = handle_->ref()},
              handle_->session());
}

absl::Status Model::to(const std::string& device) {
  if (!handle_) return NoModel();
  ClientSession& session = *handle_->session();
  UpdateModelRequest request{.model = handle_->ref(), .devices = {device.empty() ? "cpu" : device}, .parameters = {}};
  const Caller caller = session.OrderedCaller();
  return Await<ModelInfo>([&](auto done) { session.engine().UpdateModel(caller, std::move(request), std::move(done)); })
      .status();
}

absl::StatusOr<std::string> Model::device() const {
  if (!handle_) return NoModel();
  ClientSession& session = *handle_->session();
  TENSORD_ASSIGN_OR_RETURN(const ModelInfo info,
                           session.engine().GetModel(session.OrderedCaller(), handle_->ref(), false));
  return info.devices.empty() ? std::string("cpu") : info.devices.front().ToString();
}

absl::StatusOr<std::vector<ParameterInfo>> Model::parameters() const {
  if (!handle_) return NoModel();
  ClientSession& session = *handle_->session();
  TENSORD_ASSIGN_OR_RETURN(const ModelInfo info,
                           session.engine().GetModel(session.OrderedCaller(), handle_->ref(), false));
  std::vector<ParameterInfo> out;
  for (const tensord::ParameterInfo& parameter : info.parameters) {
    ParameterInfo entry;
    entry.path = parameter.path;
    entry.dtype = FromCore(parameter.spec.type.dtype);
    entry.shape.assign(parameter.spec.type.shape.begin(), parameter.spec.type.shape.end());
    entry.device = parameter.spec.device.ToString();
    out.push_back(std::move(entry));
  }
  return out;
}

Tensor Model::parameter(const std::string& path) const {
  if (!handle_) return Failed(NoModel());
  const std::shared_ptr<ClientSession>& session = handle_->session();
  const uint64_t id = session->NewIds();
  auto handle = std::make_shared<TensorHandle>(session, id, std::nullopt);
  session->Bind({.id = id, .tensor = TensorRef{TensorRef::Parameter{handle_->ref(), path}}});
  return Tensor(std::move(handle));
}

}  // namespace tensord::client
