// The engine interface through gRPC: what the C++ client, the CLI and the conformance suite talk to a daemon with.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"

namespace tensord {

struct RemoteOptions {
  std::string server = "localhost:7070";  // "HOST:PORT", "unix:/path"
  absl::Duration connect_timeout = absl::Seconds(5);
};

// Connects. Error: UNAVAILABLE naming the server, and how to start one, where nobody answers in time.
absl::StatusOr<std::unique_ptr<Engine>> ConnectEngine(const RemoteOptions& options);

}  // namespace tensord
