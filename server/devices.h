// The devices of a daemon: which there are, which of them it takes, and their memory stacks.
//
//   std::vector<EngineDevice> devices = MakeDevices(flags);   // cpu first, then cuda:0, cuda:1, …
//
// CUDA devices come from the plugin (kernels/cuda/plugin), or from the emulator where --emulate-cuda asks for it; a host
// without either has its CPU. What was found, and why something was not, goes to the log.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/local_engine.h"
#include "server/flags.h"

namespace tensord {

// Error: DEVICE_UNKNOWN where --devices names what is not there, with what there is.
absl::StatusOr<std::vector<EngineDevice>> MakeDevices(const DaemonFlags& flags);

// For --version: which backends this build has.
std::string BackendsText();

// What MakeDevices chooses by; apart for tests.
struct CandidateDevice {
  DeviceId id;
  std::string uuid;
};
// The indices of `candidates` that `selectors` name, in the order of the candidates: "cuda" all of them, "cuda:1" by
// name, "GPU-…" or "MIG-…" by a UUID or an unambiguous beginning of one. "cpu" is always there and may be named. No
// selectors: all. Error: DEVICE_UNKNOWN.
absl::StatusOr<std::vector<size_t>> SelectDevices(const std::vector<std::string>& selectors,
                                                  const std::vector<CandidateDevice>& candidates);
// Whether `selectors` leave room for any CUDA device.
bool WantsCuda(const std::vector<std::string>& selectors);

}  // namespace tensord
