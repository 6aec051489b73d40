// The daemon's command line and environment.
//
//   DaemonFlags flags;
//   if (std::optional<int> code = ParseFlags(argc, argv, backends, flags)) return *code;   // --help, --version, or a
//   mistake: said already
//
// Every flag is also an environment variable: --device-memory-limit is TENSORD_DEVICE_MEMORY_LIMIT. The command line
// wins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/core/device_id.h"
#include "server/observe/log.h"
#include "server/rpc/server.h"

namespace tensord {

// What the daemon does when a device is lost for good (server/design: device loss).
enum class OnDeviceLoss {
  kDefault,  // kDrain; kExit where it was the only CUDA device
  kDrain,    // lets open calls end within --shutdown-grace, then exits with code 75 for a supervisor to start it again
  kExit,     // the same at once
  kStay,     // goes on with the others
};

struct DaemonFlags {
  ServerOptions server;
  std::vector<std::string> devices;  // what to take: "cpu", "cuda", "cuda:1", "GPU-…", "MIG-…"; empty: all
  bool allow_tf32 = false;
  OnDeviceLoss on_device_loss = OnDeviceLoss::kDefault;
  uint32_t emulated_devices = 0;
  size_t emulated_bytes = size_t{1} << 30;  // each
  std::map<DeviceId, size_t> memory_limits;
  int threads = 0;
  std::string isa;
  absl::Duration lease = absl::Seconds(60);
  absl::Duration grace = absl::Seconds(30);
  absl::Duration shutdown_grace = absl::Seconds(5);
  LogOptions log;
};

// Fills `flags`. Empty: go on. Otherwise the process's exit code: 0 after --help and --version (on stdout, with
// `version_text`), 2 after a mistake (told on stderr).
std::optional<int> ParseFlags(int argc, char** argv, std::string_view version_text, DaemonFlags& flags);

// "64MiB", "1.5GiB", "4096" (bytes). Error: FIELD_INVALID, as for all of these.
absl::StatusOr<size_t> ParseSize(std::string_view text);
// "2", "2:64MiB": how many, and bytes of each (1 GiB where not said).
absl::StatusOr<std::pair<uint32_t, size_t>> ParseEmulated(std::string_view text);
// "cpu=4GiB", "cuda:0=512MiB".
absl::StatusOr<std::pair<DeviceId, size_t>> ParseMemoryLimit(std::string_view text);
// "cpu", "cuda", "cuda:1", "GPU-0f…", "MIG-0f…": one of --devices, as it is.
absl::StatusOr<std::string> ParseDeviceSelector(std::string_view text);
// "64 MiB", "1.5 GiB": for people.
std::string SizeText(size_t bytes);

}  // namespace tensord
