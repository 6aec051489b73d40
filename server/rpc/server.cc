#include "server/rpc/server.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/grpc.h"
#include "grpc/support/log.h"
#include "grpcpp/ext/proto_server_reflection_plugin.h"
#include "grpcpp/health_check_service_interface.h"
#include "grpcpp/impl/server_builder_option.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "kernels/core/error.h"
#include "server/observe/log.h"
#include "server/rpc/listen.h"
#include "server/rpc/malformed.h"
#include "server/rpc/services.h"
#include "server/rpc/unknown.h"

namespace tensord {
namespace {

constexpr absl::Duration kKeepaliveTimeout = absl::Seconds(20);
// After the grace: for statuses that are on their way.
constexpr absl::Duration kLastWords = absl::Milliseconds(500);

// What health calls a device.
std::string DeviceService(std::string_view device) { return StrCat("tensord.device/", device); }

constexpr const char* kServices[] = {"tensord.v1.Devices", "tensord.v1.Sessions", "tensord.v1.Tensors",
                                     "tensord.v1.Compute", "tensord.v1.Models"};

// Reflection for this server, or none. Linking the library turns it on for every server of the process, so it is taken
// out first.
class ReflectionOption final : public grpc::ServerBuilderOption {
 public:
  explicit ReflectionOption(bool on) : on_(on) {}
  void UpdateArguments(grpc::ChannelArguments* /*args*/) override {}
  void UpdatePlugins(std::vector<std::unique_ptr<grpc::ServerBuilderPlugin>>* plugins) override {
    auto plugin = std::make_unique<grpc::reflection::ProtoServerReflectionPlugin>();
    std::erase_if(*plugins, [&](const auto& each) { return each->name() == plugin->name(); });
    if (on_) plugins->push_back(std::move(plugin));
  }

 private:
  const bool on_;
};

void LogFromGrpc(gpr_log_func_args* args) {
  if (args->severity == GPR_LOG_SEVERITY_ERROR) {
    LogWarning("grpc", {{"message", args->message}});
  } else {
    LogDebug("grpc", {{"message", args->message}});
  }
}

// Socket files are made with the mode that the umask leaves: nobody but the owner, from the first moment.
class PrivateFiles {
 public:
  PrivateFiles() : before_(umask(0177)) {}
  PrivateFiles(const PrivateFiles&) = delete;
  PrivateFiles& operator=(const PrivateFiles&) = delete;
  ~PrivateFiles() { umask(before_); }

 private:
  const mode_t before_;
};

class GrpcServer final : public Server {
 public:
  GrpcServer(Engine& engine, ServerOptions options) : options_(std::move(options)), services_(engine, options_.limits) {
    for (auto make : {rpc::MakeDevicesService, rpc::MakeSessionsService, rpc::MakeTensorsService,
                      rpc::MakeComputeService, rpc::MakeModelsService}) {
      parts_.push_back(make(services_));
    }
  }

  ~GrpcServer() override { Stop(); }

  absl::Status Listen() {
    std::vector<ListenAddress> wanted;
    for (const std::string& text : options_.listen) {
      TENSORD_ASSIGN_OR_RETURN(const ListenAddress address, ParseListenAddress(text));
      TENSORD_RETURN_IF_ERROR(RefuseExposed(address, options_.insecure));
      wanted.push_back(address);
    }
    if (wanted.empty()) {
      return Error(Reason::kFieldInvalid)
          .Say("field", "--listen")
          .With("value", "empty")
          .With("allowed", "at least one address")
          .At("listen");
    }
    std::vector<ListenGuard> guards;
    for (const ListenAddress& address : wanted) {
      TENSORD_ASSIGN_OR_RETURN(ListenGuard guard, ProbeListenAddress(address));
      guards.push_back(std::move(guard));
    }

    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder builder;
    Configure(builder);
    bool local = true;
    for (const ListenAddress& address : wanted) local = local && address.loopback;
    builder.SetOption(std::make_unique<ReflectionOption>(local));
    for (const std::unique_ptr<grpc::Service>& part : parts_) builder.RegisterService(part.get());
    builder.RegisterCallbackGenericService(&unknown_);
    builder.experimental().SetInterceptorCreators(rpc::MalformedRequests());
    std::vector<std::vector<int>> ports(wanted.size());
    for (size_t i = 0; i < wanted.size(); ++i) TENSORD_RETURN_IF_ERROR(AddPorts(builder, wanted[i], ports[i]));
    {
      const PrivateFiles mode;
      server_ = builder.BuildAndStart();
    }
    for (size_t i = 0; i < wanted.size(); ++i) TENSORD_RETURN_IF_ERROR(Bound(wanted[i], ports[i]));
    SetServing(true);
    for (const std::string& device : options_.devices) SetDevice(device, true);
    return absl::OkStatus();
  }

  const std::vector<std::string>& addresses() const override { return addresses_; }

  void BeginDrain(absl::Duration grace) override {
    SetServing(false);
    services_.calls.BeginDrain(grace);
  }

  void DeviceLost(std::string_view device) override { SetDevice(device, false); }

  bool AwaitCalls(absl::Time deadline) override { return services_.calls.AwaitFinite(deadline); }

  void Stop() override {
    if (server_ == nullptr) return;
    BeginDrain(absl::ZeroDuration());
    services_.calls.EndAll();
    server_->Shutdown(absl::ToChronoTime(absl::Now() + kLastWords));
    server_->Wait();
    {
      absl::MutexLock lock(&devices_mutex_);
      server_.reset();
    }
    RemoveSockets();
  }

  void RemoveSockets() override {
    for (const auto& [path, inode] : sockets_) {
      struct stat info {};
      if (lstat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode) && info.st_ino == inode) unlink(path.c_str());
    }
  }

 private:
  void Configure(grpc::ServerBuilder& builder) const {
    const auto ms = [](absl::Duration d) { return static_cast<int>(absl::ToInt64Milliseconds(d)); };
    builder.SetMaxReceiveMessageSize(static_cast<int>(options_.limits.max_message_bytes));
    builder.SetMaxSendMessageSize(-1);
    // A second daemon on the same port is an error, not a partner.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, options_.max_connection_streams);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, options_.max_metadata_bytes);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, ms(options_.keepalive));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, ms(kKeepaliveTimeout));
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, ms(options_.min_ping_interval));
    // The bound on a message counts its bytes before they are unpacked, so a packed one could be any size after it.
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
    builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  }

  // A host name that stands for several addresses gets the same port on each, which gRPC cannot choose by itself: ports
  // are then known only after the start.
  static absl::Status AddPorts(grpc::ServerBuilder& builder, const ListenAddress& address, std::vector<int>& ports) {
    const std::vector<std::string> targets = BindTargets(address);
    const bool any_port = address.kind == ListenAddress::Kind::kTcp && address.port == 0;
    // With a port to be chosen one address is enough: localhost is then 127.0.0.1.
    ports.resize(any_port ? 1 : targets.size());
    for (size_t i = 0; i < ports.size(); ++i)
      builder.AddListeningPort(targets[i], grpc::InsecureServerCredentials(), &ports[i]);
    return absl::OkStatus();
  }

  absl::Status Bound(const ListenAddress& address, const std::vector<int>& ports) {
    bool all = server_ != nullptr;
    for (const int port : ports) all = all && port > 0;
    if (!all)
      return absl::UnavailableError(std::string(
          StrCat("cannot listen on ", address.ToString(), ": it could not be bound (TENSORD_LOG=debug tells more)")));
    ListenAddress bound = address;
    if (address.kind == ListenAddress::Kind::kTcp) {
      bound.port = static_cast<uint16_t>(ports[0]);
      if (address.port == 0 && address.host == "localhost") bound.host = "127.0.0.1";
    } else {
      struct stat info {};
      if (chmod(address.path.c_str(), 0600) != 0 || lstat(address.path.c_str(), &info) != 0) {
        return absl::UnavailableError(std::string(StrCat("cannot listen on ", address.ToString(), ": ",
                                                         std::strerror(errno))));  // NOLINT(concurrency-mt-unsafe)
      }
      sockets_.emplace_back(address.path, info.st_ino);
    }
    addresses_.push_back(bound.ToString());
    return absl::OkStatus();
  }

  void SetServing(bool serving) {
    grpc::HealthCheckServiceInterface* const health = server_ == nullptr ? nullptr : server_->GetHealthCheckService();
    if (health == nullptr) return;
    health->SetServingStatus(serving);
    for (const char* name : kServices) health->SetServingStatus(name, serving);
  }

  // A device that is lost stays so, whatever is said of it later.
  void SetDevice(std::string_view device, bool serving) {
    absl::MutexLock lock(&devices_mutex_);
    grpc::HealthCheckServiceInterface* const health = server_ == nullptr ? nullptr : server_->GetHealthCheckService();
    if (!serving) lost_devices_.insert(std::string(device));
    if (health == nullptr) return;
    health->SetServingStatus(DeviceService(device), !lost_devices_.contains(std::string(device)));
  }

  const ServerOptions options_;
  rpc::Services services_;
  std::vector<std::unique_ptr<grpc::Service>> parts_;
  rpc::UnknownMethods unknown_;
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::string> addresses_;
  std::vector<std::pair<std::string, ino_t>> sockets_;
  absl::Mutex devices_mutex_;
  std::set<std::string> lost_devices_ ABSL_GUARDED_BY(devices_mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Engine& engine, ServerOptions options) {
  // Held until the process ends: taking the library down waits up to 10 s for a poller of its own that has nothing to
  // do.
  static const bool library = (grpc_init(), true);
  static_cast<void>(library);
  gpr_set_log_function(LogFromGrpc);
  // Text that is not UTF-8 is refused with a status; protobuf's own lines would let clients fill the log.
  google::protobuf::SetLogHandler(nullptr);
  if (LogsDebug()) gpr_set_log_verbosity(GPR_LOG_SEVERITY_INFO);
  auto server = std::make_unique<GrpcServer>(engine, std::move(options));
  TENSORD_RETURN_IF_ERROR(server->Listen());
  return std::unique_ptr<Server>(std::move(server));
}

}  // namespace tensord
