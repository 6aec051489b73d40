// What the conformance suite runs against: an engine, in process or behind gRPC, with the same devices.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/engine/local_engine.h"

namespace tensord::conformance {

// One engine with what stands around it. Built once a test, ended with it.
class Subject {
 public:
  virtual ~Subject() = default;
  // What a client sees.
  virtual Engine& engine() = 0;
  // The engine behind it: for counts of what is alive.
  virtual LocalEngine& local() = 0;
};

struct SubjectKind {
  std::string name;  // "InProcess", "Grpc"
  std::function<std::unique_ptr<Subject>(const EngineOptions& options)> make;
};

// Devices of every subject: cpu, cuda:0 and cuda:1, emulated, with 64 MiB each.
std::vector<SubjectKind> SubjectKinds();
std::vector<std::string> DeviceNames();

// From now on every call on that emulated CUDA device fails, as on a GPU that fell off its bus; false where devices are
// real. Until ReviveDevices, and for engines made after it.
bool LoseDevice(int index);
void ReviveDevices();

// Calls of the emulated CUDA runtime so far that can fail; nullopt where devices are real.
std::optional<uint64_t> CountDriverCalls();
enum class DriverFault : uint8_t { kOutOfMemory, kInvalidValue, kSticky };
// The n-th call from now on, from 1, fails; after a sticky fault so do all later ones on the device.
void FailDriverCall(uint64_t n, DriverFault fault);

}  // namespace tensord::conformance
