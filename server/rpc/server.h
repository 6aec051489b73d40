// The daemon's gRPC server: the five services of tensord.v1, health and (on this machine only) reflection, over an
// Engine.
//
//   TENSORD_ASSIGN_OR_RETURN(auto server, Server::Start(*engine, {.listen = {"localhost:7070"}}));
//   puts(server->addresses()[0].c_str());
//   …
//   server->BeginDrain(absl::Seconds(5));       // not ready, new calls are refused with DRAINING, open ones go on
//   server->AwaitCalls(deadline);               // unary calls and transfers
//   engine->Shutdown(deadline - absl::Now());   // streams end
//   server->Stop();                             // whatever is left ends now
//
// Thread safe apart from Stop, which is called once, by one thread, and by the destructor where nobody did. No gRPC
// type appears here.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"

namespace tensord {

struct ServerOptions {
  // "HOST:PORT", "[V6]:PORT", "unix:/path"; port 0 takes a free one. At least one.
  std::vector<std::string> listen = {"localhost:7070"};
  // Allows addresses that other machines reach.
  bool insecure = false;
  // max_message_bytes, max_chunk_bytes, max_requests and the stream's window are held here; the converter
  // (wire::SetLimits) and the engine hold the rest.
  Limits limits;
  // HTTP/2 streams of one connection.
  int max_connection_streams = 256;
  // Bytes of a call's metadata.
  int max_metadata_bytes = 8 << 10;
  // Clients that ping more often are disconnected.
  absl::Duration min_ping_interval = absl::Seconds(10);
  // Idle connections are probed so often; one that does not answer within 20 s is closed.
  absl::Duration keepalive = absl::Seconds(30);
  // Devices with a health of their own: cuda:0 is the service "tensord.device/cuda:0".
  std::vector<std::string> devices;
};

class Server {
 public:
  // Listens when it returns. `engine` outlives the server. Errors: FIELD_INVALID, LIMIT_EXCEEDED for an address that
  // cannot be meant or is exposed; UNAVAILABLE, with a text for the operator, for one that cannot be had.
  static absl::StatusOr<std::unique_ptr<Server>> Start(Engine& engine, ServerOptions options);
  virtual ~Server() = default;

  // As given, with the port that was taken: "localhost:7070", "unix:/run/tensord.sock".
  virtual const std::vector<std::string>& addresses() const = 0;

  // Health turns NOT_SERVING, watches end, new calls get DRAINING, streams get it as a notice. Idempotent.
  virtual void BeginDrain(absl::Duration grace) = 0;
  // The device's own health turns NOT_SERVING, for good; the daemon's stays what it is. Any time.
  virtual void DeviceLost(std::string_view device) = 0;
  // Waits for unary calls, uploads and downloads; false if some are left at `deadline`.
  virtual bool AwaitCalls(absl::Time deadline) = 0;
  // Ends open calls with DRAINING, closes every connection, removes socket files.
  virtual void Stop() = 0;
  // Removes socket files and nothing else: for a process that ends at once.
  virtual void RemoveSockets() = 0;
};

}  // namespace tensord
