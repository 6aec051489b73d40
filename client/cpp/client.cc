#include "tensord/client.h"

#include <cstdlib>
#include <utility>

#include "client/cpp/client_session.h"
#include "client/cpp/emit.h"
#include "client/cpp/remote_engine.h"
#include "kernels/core/error.h"

namespace tensord::client {
namespace {

SpecRequest ToSpec(const Shape& shape, const TensorOptions& options, Dtype fallback = Dtype::kFloat32) {
  SpecRequest spec;
  spec.type.dtype = ToCore(options.dtype == Dtype::kNone ? fallback : options.dtype);
  spec.type.shape = ToDims(shape);
  spec.device = options.device;
  return spec;
}

// The dtype that a literal has by itself.
Dtype DtypeOf(const Operand& value) {
  if (std::holds_alternative<bool>(value.value)) return Dtype::kBool;
  if (std::holds_alternative<double>(value.value)) return Dtype::kFloat32;
  return Dtype::kInt64;
}

// A tensor from nothing.
Tensor Create(Op op, std::vector<Operand> scalars, const std::shared_ptr<ClientSession>& session, SpecRequest spec,
              std::optional<uint64_t> seed = std::nullopt, int64_t diagonal = 0) {
  CreateAttributes attributes;
  attributes.spec = std::move(spec);
  attributes.seed = seed;
  attributes.diagonal = diagonal;
  return Emit(op, scalars, std::move(attributes), session);
}

bool IsReal(const Operand& value) { return std::holds_alternative<double>(value.value); }

Entry ToEntry(const tensord::TensorInfo& info) {
  Entry entry;
  if (!info.names.empty()) entry.name = info.names.front();
  entry.dtype = FromCore(info.spec.type.dtype);
  entry.shape.assign(info.spec.type.shape.begin(), info.spec.type.shape.end());
  entry.device = info.spec.device.ToString();
  entry.bytes = info.bytes;
  return entry;
}

absl::Status Publish(ClientSession& session, decltype(PublishRequest::source) source, const std::string& name,
                     const PublishOptions& options) {
  PublishRequest request;
  request.source = std::move(source);
  request.name = name;
  request.replace = options.replace;
  request.ttl = options.ttl;
  return session.engine().Publish(session.OrderedCaller(), request).status();
}

}  // namespace

absl::StatusOr<Client> Client::connect(const ConnectOptions& options) {
  RemoteOptions remote;
  remote.connect_timeout = options.connect_timeout;
  const char* from_environment = std::getenv("TENSORD_SERVER");
  if (!options.server.empty()) {
    remote.server = options.server;
  } else if (from_environment != nullptr && *from_environment != '\0') {
    remote.server = from_environment;
  }
  TENSORD_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine, ConnectEngine(remote));
  OpenSessionRequest request;
  request.client = options.name;
  request.workspace = options.workspace;
  request.grace = options.grace;
  TENSORD_ASSIGN_OR_RETURN(std::shared_ptr<ClientSession> session,
                           ClientSession::Open(std::move(engine), std::move(request)));
  return Client(std::move(session));
}

Client::Client(std::shared_ptr<ClientSession> session) : session_(std::move(session)) {}
Client::Client(const Client&) = default;
Client& Client::operator=(const Client&) = default;
Client::Client(Client&&) noexcept = default;
Client& Client::operator=(Client&&) noexcept = default;
Client::~Client() = default;

absl::StatusOr<std::vector<DeviceInfo>> Client::devices() const {
  TENSORD_ASSIGN_OR_RETURN(const ListDevicesResponse response,
                           session_->engine().ListDevices(session_->OrderedCaller(), {}, false));
  std::vector<DeviceInfo> out;
  for (const DeviceDescription& device : response.devices) {
    DeviceInfo info;
    info.id = device.info.id.ToString();
    info.name = device.info.model;
    info.uuid = device.info.uuid.value_or("");
    info.emulated = device.info.emulated;
    info.memory_total = device.memory.total;
    info.memory_used = device.memory.used;
    info.memory_free = device.memory.free;
    out.push_back(std::move(info));
  }
  return out;
}

std::string Client::try_gpu(int index) const {
  const std::string wanted = StrCat("cuda:", index);
  const absl::StatusOr<std::vector<DeviceInfo>> all = devices();
  if (all.ok()) {
    for (const DeviceInfo& device : *all) {
      if (device.id == wanted) return wanted;
    }
  }
  return "cpu";
}

std::vector<std::string> Client::try_all_gpus() const {
  std::vector<std::string> out;
  const absl::StatusOr<std::vector<DeviceInfo>> all = devices();
  if (all.ok()) {
    for (const DeviceInfo& device : *all) {
      if (device.id.starts_with("cuda:")) out.push_back(device.id);
    }
  }
  if (out.empty()) out.push_back("cpu");
  return out;
}

Tensor Client::zeros(const Shape& shape, const TensorOptions& options) const {
  return Create(Op::kZeros, {}, session_, ToSpec(shape, options));
}
Tensor Client::ones(const Shape& shape, const TensorOptions& options) const {
  return Create(Op::kOnes, {}, session_, ToSpec(shape, options));
}
Tensor Client::full(const Shape& shape, const Operand& value, const TensorOptions& options) const {
  return Create(Op::kFull, {value}, session_, ToSpec(shape, options, DtypeOf(value)));
}
Tensor Client::arange(const Operand& start, const Operand& stop, const Operand& step,
                      const TensorOptions& options) const {
  const Dtype fallback = IsReal(start) || IsReal(stop) || IsReal(step) ? Dtype::kFloat32 : Dtype::kInt64;
  return Create(Op::kArange, {start, stop, step}, session_, ToSpec({}, options, fallback));
}
Tensor Client::linspace(double start, double stop, int64_t count, const TensorOptions& options) const {
  return Create(Op::kLinspace, {start, stop}, session_, ToSpec({count}, options));
}
Tensor Client::eye(int64_t rows, int64_t columns, const TensorOptions& options, int64_t diagonal) const {
  return Create(Op::kEye, {}, session_, ToSpec({rows, columns}, options), std::nullopt, diagonal);
}
Tensor Client::rand(const Shape& shape, const TensorOptions& options, std::optional<uint64_t> seed) const {
  return Create(Op::kRand, {}, session_, ToSpec(shape, options), seed);
}
Tensor Client::randn(const Shape& shape, const TensorOptions& options, std::optional<uint64_t> seed) const {
  return Create(Op::kRandn, {}, session_, ToSpec(shape, options), seed);
}

absl::Status Client::publish(const Tensor& tensor, const std::string& name, const PublishOptions& options) const {
  const TensorHandle& handle = *tensor.handle();
  if (!handle.session()) return handle.known()->status();
  return Publish(*handle.session(), TensorRef::Id(handle.id()), name, options);
}

absl::Status Client::publish(const Model& model, const std::string& name, const PublishOptions& options) const {
  if (!model.handle()) return absl::FailedPreconditionError("no model: it was never made, or moved from");
  return Publish(*model.handle()->session(), model.handle()->ref(), name, options);
}

absl::StatusOr<Tensor> Client::open(const std::string& name) const {
  TENSORD_ASSIGN_OR_RETURN(const tensord::TensorInfo info,
                           session_->engine().GetTensor(session_->OrderedCaller(), TensorRef::Name(name)));
  const uint64_t id = session_->NewIds();
  auto handle = std::make_shared<TensorHandle>(session_, id, absl::StatusOr<TensorSpec>(info.spec));
  session_->Bind({.id = id, .tensor = TensorRef::Name(name)});
  return Tensor(std::move(handle));
}

absl::StatusOr<Model> Client::open_model(const std::string& name) const {
  ModelRef ref{.id = 0, .name = name};
  TENSORD_RETURN_IF_ERROR(session_->engine().GetModel(session_->OrderedCaller(), ref, false).status());
  return Model(std::make_shared<ModelHandle>(session_, std::move(ref)));
}

absl::StatusOr<std::vector<Entry>> Client::list(const std::string& prefix, const std::string& workspace) const {
  std::vector<Entry> out;
  ListTensorsRequest request;
  request.prefix = prefix;
  request.workspace = workspace;
  for (;;) {
    TENSORD_ASSIGN_OR_RETURN(const ListTensorsResponse page,
                             session_->engine().ListTensors(session_->OrderedCaller(), request));
    for (const tensord::TensorInfo& info : page.tensors) out.push_back(ToEntry(info));
    if (page.next_page_token.empty()) return out;
    request.page.page_token = page.next_page_token;
  }
}

absl::Status Client::remove(const std::string& name) const {
  const Caller caller = session_->OrderedCaller();
  const absl::Status status =
      session_->engine().DeleteTensors(caller, {.tensors = {TensorRef::Name(name)}, .allow_missing = false}).status();
  if (ReasonOf(status) != Reason::kKindMismatch) return status;
  return session_->engine().DeleteModel(caller, ModelRef{.id = 0, .name = name}).status();
}

void Client::flush() const { session_->Flush(); }
absl::Status Client::synchronize() const { return session_->Read(0, ValueFormat::kNone).status(); }
std::string Client::session_id() const { return session_->info().session; }

}  // namespace tensord::client
