// What every call of the remote engine shares: the channel with its stubs, call metadata, and statuses that say which
// server they are about.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "client/cpp/raw_call.h"
#include "server/engine/engine.h"
#include "tensord/v1/compute.grpc.pb.h"
#include "tensord/v1/device.grpc.pb.h"
#include "tensord/v1/model.grpc.pb.h"
#include "tensord/v1/session.grpc.pb.h"
#include "tensord/v1/tensor.grpc.pb.h"

namespace tensord {

// Shared by the engine and by its streams and transfers, which may outlive it. Thread safe.
class Connection {
 public:
  Connection(std::string server_name, const std::shared_ptr<grpc::Channel>& channel);

  const std::string server;
  const std::unique_ptr<v1::Devices::Stub> devices;
  const std::unique_ptr<v1::Sessions::Stub> sessions;
  const std::unique_ptr<v1::Tensors::Stub> tensors;
  const std::unique_ptr<v1::Compute::Stub> compute;
  const std::unique_ptr<v1::Models::Stub> models;
  grpc::GenericStub generic;

  // The daemon's bounds as of the last OpenSession; defaults before.
  Limits limits() const ABSL_LOCKS_EXCLUDED(mu_);
  void set_limits(const Limits& limits) ABSL_LOCKS_EXCLUDED(mu_);

  // A status of a call in domain terms. UNAVAILABLE from the transport itself names the server.
  absl::Status Explain(absl::Status status) const;

 private:
  mutable absl::Mutex mu_;
  Limits limits_ ABSL_GUARDED_BY(mu_);
};

// tensord-session, tensord-after and the deadline. Error: SESSION_UNKNOWN for a token that cannot be one.
absl::Status SetCaller(grpc::ClientContext& context, const Caller& caller);

absl::StatusOr<std::unique_ptr<UploadSink>> StartUpload(std::shared_ptr<Connection> connection, const Caller& caller,
                                                        const UploadStart& start);
void StartDownload(std::shared_ptr<Connection> connection, const Caller& caller, const DownloadRequest& request,
                   Done<std::unique_ptr<DownloadSource>> done);
absl::StatusOr<std::unique_ptr<InstructionStream>> StartStream(std::shared_ptr<Connection> connection,
                                                               const Caller& caller,
                                                               std::shared_ptr<StreamListener> listener);

}  // namespace tensord
