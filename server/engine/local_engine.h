// The engine that owns the devices of this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/engine/engine.h"

namespace tensord {

// A device with its memory stack: `stack` from bottom to top over backend->memory(); the engine allocates from the top.
struct EngineDevice {
  std::unique_ptr<Backend> backend;
  std::vector<std::unique_ptr<MemoryResource>> stack;
};

struct EngineOptions {
  Limits limits;
  std::string daemon_version = "0.1.0";
  absl::Duration default_lease = absl::Seconds(60);
  absl::Duration default_grace = absl::Seconds(30);
  // A device is lost, for good: called once a device, on a thread of its own, with DEVICE_LOST as everybody gets it. May
  // call the engine, Shutdown too; the engine's destructor waits for it.
  std::function<void(DeviceId device, const absl::Status& loss)> on_device_loss;
};

class LocalEngine : public Engine {
 public:
  // "cpu" must be among the devices. Starts one executor thread a device and one for leases.
  static std::unique_ptr<LocalEngine> Create(std::vector<EngineDevice> devices, EngineOptions options);

  // Refuses new work with DRAINING, waits up to `grace` for what is queued, ends streams, frees everything. Idempotent;
  // the destructor calls it with no grace. Order: stop accepting, drain streams, close sessions, drain executors,
  // destroy backends.
  virtual void Shutdown(absl::Duration grace) = 0;

  // For tests and health: counts of what is alive now.
  struct Counts {
    uint64_t sessions = 0;
    uint64_t handles = 0;
    uint64_t names = 0;
    uint64_t buffers = 0;  // device buffers held by anybody, work in flight included
    uint64_t buffer_bytes = 0;
  };
  virtual Counts CountAlive() const = 0;
  virtual uint64_t incarnation() const = 0;
};

}  // namespace tensord
