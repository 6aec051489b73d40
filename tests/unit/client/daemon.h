// A whole daemon in the test's process: CPU and two emulated devices, engine, gRPC server on a free port; and a wire to
// it that a test can cut.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "client/cpp/client_session.h"
#include "client/cpp/remote_engine.h"
#include "server/engine/local_engine.h"
#include "server/rpc/server.h"
#include "tensord/tensord.h"

namespace tensord::testing {

class Daemon {
 public:
  explicit Daemon(EngineOptions options = {});
  ~Daemon();

  LocalEngine& engine() { return *engine_; }
  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }
  // Connects; ends the test where that fails.
  std::unique_ptr<Engine> Connect() const;
  client::Client Client() const;

 private:
  std::unique_ptr<LocalEngine> engine_;
  std::unique_ptr<Server> server_;
  std::string address_;
};

// A client on an engine in this process, without a network.
client::Client ClientOn(Engine& engine);

// Forwards connections to `target`, "127.0.0.1:PORT".
class Wire {
 public:
  explicit Wire(const std::string& target);
  ~Wire();
  const std::string& address() const { return address_; }
  // Breaks every connection; later ones are accepted and dropped at once until Mend.
  void Cut();
  void Mend();

 private:
  void Run();

  const int target_port_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  std::string address_;
  std::atomic<bool> cut_ = false;
  std::atomic<bool> stop_ = false;
  std::atomic<int> acknowledged_cuts_ = 0;
  std::thread thread_;
};

}  // namespace tensord::testing
