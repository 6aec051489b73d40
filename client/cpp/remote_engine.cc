#include "client/cpp/remote_engine.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <utility>

#include "client/cpp/callback_queue.h"
#include "client/cpp/remote_call.h"
#include "kernels/core/error.h"
#include "proto/wire/convert.h"
#include "proto/wire/status_grpc.h"

namespace tensord {
namespace {

// Of one received message: chunks may have 16 MiB, replies 4 MiB.
constexpr int kMaxReceivedBytes = 64 << 20;
// Above the daemon's least interval between pings (10 s), so that an idle client is never cut off for pinging.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 20'000;
constexpr int kFirstReconnectMs = 100;
constexpr int kLastReconnectMs = 1'000;
constexpr std::string_view kDefaultPort = "7070";

template <class Response>
auto Decoded(const Connection& connection, const grpc::Status& status, const Response& response)
    -> decltype(wire::FromProto(response)) {
  if (!status.ok()) return connection.Explain(wire::FromGrpc(status));
  return wire::FromProto(response);
}

class RemoteEngine : public Engine {
 public:
  explicit RemoteEngine(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}

  absl::StatusOr<OpenSessionResponse> OpenSession(const Caller& caller, const OpenSessionRequest& request) override {
    absl::StatusOr<OpenSessionResponse> response = Call<v1::OpenSessionResponse>(
        caller, wire::ToProto(request), *connection_->sessions, &v1::Sessions::Stub::OpenSession);
    if (response.ok()) connection_->set_limits(response->limits);
    return response;
  }
  absl::StatusOr<KeepAliveResponse> KeepAlive(const Caller& caller) override {
    return Call<v1::KeepAliveResponse>(caller, v1::KeepAliveRequest(), *connection_->sessions,
                                       &v1::Sessions::Stub::KeepAlive);
  }
  absl::StatusOr<FreedSession> CloseSession(const Caller& caller) override {
    return Call<v1::CloseSessionResponse>(caller, v1::CloseSessionRequest(), *connection_->sessions,
                                          &v1::Sessions::Stub::CloseSession);
  }
  absl::StatusOr<ListSessionsResponse> ListSessions(const Caller& caller, const PageRequest& page) override {
    return Call<v1::ListSessionsResponse>(caller, wire::ListSessionsRequestToProto(page), *connection_->sessions,
                                          &v1::Sessions::Stub::ListSessions);
  }
  absl::StatusOr<FreedSession> KillSession(const Caller& caller, const std::string& session) override {
    return Call<v1::KillSessionResponse>(caller, wire::KillSessionRequestToProto(session), *connection_->sessions,
                                         &v1::Sessions::Stub::KillSession);
  }

  absl::StatusOr<ListDevicesResponse> ListDevices(const Caller& caller, const std::vector<std::string>& devices,
                                                  bool with_holders) override {
    return Call<v1::ListDevicesResponse>(caller, wire::ToProto(wire::DeviceQuery{devices, with_holders}),
                                         *connection_->devices, &v1::Devices::Stub::ListDevices);
  }
  absl::StatusOr<uint64_t> TrimMemory(const Caller& caller, const std::vector<std::string>& devices) override {
    return Call<v1::TrimMemoryResponse>(caller, wire::TrimMemoryRequestToProto(devices), *connection_->devices,
                                        &v1::Devices::Stub::TrimMemory);
  }

  void Execute(const Caller& caller, ExecuteRequest request, Done<ExecuteResponse> done) override {
    CallAsync<v1::ExecuteResponse>(caller, wire::ToProto(request), std::move(done), [c = connection_](auto&&... args) {
      c->compute->async()->Execute(std::forward<decltype(args)>(args)...);
    });
  }
  absl::StatusOr<std::unique_ptr<InstructionStream>> OpenStream(const Caller& caller,
                                                                std::shared_ptr<StreamListener> listener) override {
    // The stream's own call answers nothing until something happens: a session that is not there is told here.
    TENSORD_RETURN_IF_ERROR(KeepAlive(caller).status());
    return StartStream(connection_, caller, std::move(listener));
  }
  absl::StatusOr<RegisterProgramResponse> RegisterProgram(const Caller& caller, uint64_t id, Program program) override {
    return Call<v1::RegisterProgramResponse>(caller,
                                             wire::ToProto(wire::RegisterProgramRequest{id, std::move(program)}),
                                             *connection_->compute, &v1::Compute::Stub::RegisterProgram);
  }
  absl::Status UnregisterProgram(const Caller& caller, uint64_t id) override {
    grpc::ClientContext context;
    TENSORD_RETURN_IF_ERROR(SetCaller(context, caller));
    v1::UnregisterProgramResponse response;
    const grpc::Status status =
        connection_->compute->UnregisterProgram(&context, wire::UnregisterProgramRequestToProto(id), &response);
    return connection_->Explain(wire::FromGrpc(status));
  }
  absl::StatusOr<std::vector<OpDescription>> ListOps(const Caller& caller, const std::string& prefix) override {
    return Call<v1::ListOpsResponse>(caller, wire::ListOpsRequestToProto(prefix), *connection_->compute,
                                     &v1::Compute::Stub::ListOps);
  }

  absl::StatusOr<std::unique_ptr<UploadSink>> Upload(const Caller& caller, const UploadStart& start) override {
    return StartUpload(connection_, caller, start);
  }
  void Download(const Caller& caller, const DownloadRequest& request,
                Done<std::unique_ptr<DownloadSource>> done) override {
    StartDownload(connection_, caller, request, std::move(done));
  }
  absl::StatusOr<TensorInfo> GetTensor(const Caller& caller, const TensorRef& tensor) override {
    return Call<v1::GetTensorResponse>(caller, wire::GetTensorRequestToProto(tensor), *connection_->tensors,
                                       &v1::Tensors::Stub::GetTensor);
  }
  absl::StatusOr<ListTensorsResponse> ListTensors(const Caller& caller, const ListTensorsRequest& request) override {
    return Call<v1::ListTensorsResponse>(caller, wire::ToProto(request), *connection_->tensors,
                                         &v1::Tensors::Stub::ListTensors);
  }
  absl::StatusOr<PublishResponse> Publish(const Caller& caller, const PublishRequest& request) override {
    return Call<v1::PublishResponse>(caller, wire::ToProto(request), *connection_->tensors,
                                     &v1::Tensors::Stub::Publish);
  }
  absl::StatusOr<DeleteTensorsResponse> DeleteTensors(const Caller& caller,
                                                      const DeleteTensorsRequest& request) override {
    return Call<v1::DeleteTensorsResponse>(caller, wire::ToProto(request), *connection_->tensors,
                                           &v1::Tensors::Stub::DeleteTensors);
  }

  void CreateModel(const Caller& caller, CreateModelRequest request, Done<ModelInfo> done) override {
    CallAsync<v1::CreateModelResponse>(
        caller, wire::ToProto(request), std::move(done),
        [c = connection_](auto&&... args) { c->models->async()->CreateModel(std::forward<decltype(args)>(args)...); });
  }
  absl::StatusOr<ModelInfo> GetModel(const Caller& caller, const ModelRef& model, bool with_program) override {
    return Call<v1::GetModelResponse>(caller, wire::ToProto(wire::GetModelRequest{model, with_program}),
                                      *connection_->models, &v1::Models::Stub::GetModel);
  }
  absl::StatusOr<ListModelsResponse> ListModels(const Caller& caller, const ListModelsRequest& request) override {
    return Call<v1::ListModelsResponse>(caller, wire::ToProto(request), *connection_->models,
                                        &v1::Models::Stub::ListModels);
  }
  void UpdateModel(const Caller& caller, UpdateModelRequest request, Done<ModelInfo> done) override {
    CallAsync<v1::UpdateModelResponse>(
        caller, wire::ToProto(request), std::move(done),
        [c = connection_](auto&&... args) { c->models->async()->UpdateModel(std::forward<decltype(args)>(args)...); });
  }
  absl::StatusOr<uint64_t> DeleteModel(const Caller& caller, const ModelRef& model) override {
    return Call<v1::DeleteModelResponse>(caller, wire::DeleteModelRequestToProto(model), *connection_->models,
                                         &v1::Models::Stub::DeleteModel);
  }

 private:
  // A unary call that blocks its caller.
  template <class Response, class Request, class Stub>
  auto Call(const Caller& caller, const Request& request, Stub& stub,
            grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*))
      -> decltype(wire::FromProto(std::declval<Response>())) {
    grpc::ClientContext context;
    TENSORD_RETURN_IF_ERROR(SetCaller(context, caller));
    Response response;
    const grpc::Status status = (stub.*method)(&context, request, &response);
    return Decoded(*connection_, status, response);
  }

  // A unary call that answers on one of gRPC's threads.
  template <class Response, class Request, class Domain, class Start>
  void CallAsync(const Caller& caller, Request request, Done<Domain> done, Start start) {
    struct State {
      grpc::ClientContext context;
      Request request;
      Response response;
      Done<Domain> done;
    };
    auto state = std::make_shared<State>();
    if (absl::Status status = SetCaller(state->context, caller); !status.ok()) return done(status);
    state->request = std::move(request);
    state->done = std::move(done);
    start(&state->context, &state->request, &state->response, [state, connection = connection_](grpc::Status status) {
      state->done(Decoded(*connection, status, state->response));
    });
  }

  const std::shared_ptr<Connection> connection_;
};

bool IsLocal(std::string_view server) {
  return server.starts_with("unix:") || server.starts_with("localhost:") || server.starts_with("127.") ||
         server.starts_with("[::1]");
}

// "HOST" gets the default port; "[::1]:7070", "HOST:PORT" and "unix:/path" are complete.
std::string Target(const std::string& server) {
  if (server.empty()) return StrCat("localhost:", kDefaultPort);
  if (server.starts_with("unix:")) return server;
  const size_t bracket = server.rfind(']');
  const size_t colon = server.rfind(':');
  if (colon == std::string::npos || (bracket != std::string::npos && colon < bracket))
    return StrCat(server, ":", kDefaultPort);
  return server;
}

// Why the last attempt failed, as the transport tells it; "" where it does not.
std::string Cause(const Connection& connection) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
  v1::ListDevicesResponse response;
  const grpc::Status status = connection.devices->ListDevices(&context, v1::ListDevicesRequest(), &response);
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ? StrCat(" (", status.error_message(), ")") : "";
}

}  // namespace

Connection::Connection(std::string server_name, const std::shared_ptr<grpc::Channel>& channel)
    : server(std::move(server_name)),
      devices(v1::Devices::NewStub(channel)),
      sessions(v1::Sessions::NewStub(channel)),
      tensors(v1::Tensors::NewStub(channel)),
      compute(v1::Compute::NewStub(channel)),
      models(v1::Models::NewStub(channel)),
      generic(channel) {}

Limits Connection::limits() const {
  absl::MutexLock lock(&mu_);
  return limits_;
}

void Connection::set_limits(const Limits& limits) {
  absl::MutexLock lock(&mu_);
  limits_ = limits;
}

absl::Status Connection::Explain(absl::Status status) const {
  if (status.code() != absl::StatusCode::kUnavailable || !DetailsOf(status).reason_name.empty()) return status;
  return absl::UnavailableError(StrCat("no connection to ", server, ": ", std::string(status.message())));
}

absl::Status SetCaller(grpc::ClientContext& context, const Caller& caller) {
  for (const char c : caller.token) {
    // gRPC takes printable ASCII alone and ends the process for anything else.
    if (c <= 0x20 || c >= 0x7f) return Error(Reason::kSessionUnknown).With("cause", "unknown");
  }
  if (!caller.token.empty()) context.AddMetadata("tensord-session", caller.token);
  if (caller.after != 0) context.AddMetadata("tensord-after", std::to_string(caller.after));
  if (caller.deadline != absl::InfiniteFuture()) context.set_deadline(absl::ToChronoTime(caller.deadline));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Engine>> ConnectEngine(const RemoteOptions& options) {
  KeepCallbackQueue();
  const std::string target = Target(options.server);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxReceivedBytes);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kFirstReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kLastReconnectMs);
  // A connection of its own: engines in one process do not share fate.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  if (IsLocal(target)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const std::shared_ptr<grpc::Channel> channel =
      grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
  auto connection = std::make_shared<Connection>(target, channel);
  if (!channel->WaitForConnected(absl::ToChronoTime(absl::Now() + options.connect_timeout))) {
    return absl::UnavailableError(
        StrCat("nobody answers at ", target, Cause(*connection),
               "; start a daemon with `tensord`, or name another with --server or TENSORD_SERVER"));
  }
  return std::make_unique<RemoteEngine>(std::move(connection));
}

}  // namespace tensord
