// What NVML tells of devices, read in a thread of its own: on a sick GPU its calls can block for seconds or for ever,
// and who asks for a temperature must not.
//
//   NvmlReading reading = SharedNvml().Read({.uuid = "GPU-…", .pci_bus_id = "0000:01:00.0"}, absl::Seconds(1));
//   if (!reading.why.empty()) …       // nothing came: no library, no permission, no answer in time
//
// Devices are found by UUID, then by PCI bus id, never by index: NVML's order is not CUDA's. Every field is optional; a
// call that the driver lacks, the device does not support or the user may not make leaves its field out.
//
// Thread safety: any number of threads. One thread reads, started by the first question; one that hangs is left behind
// and meanwhile every question is answered at once with the reason.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "kernels/backend.h"
#include "kernels/cuda/nvml_api.h"

namespace tensord::cuda {

struct NvmlIdentity {
  std::string uuid;  // "GPU-…" or "MIG-…"; may be empty
  std::string pci_bus_id;
};

struct NvmlReading {
  // Why nothing was read, or empty: "nvmlInit_v2: driver and library versions differ (18)".
  std::string why;
  // NVML says that the device is gone or unusable until a reset; `why` tells which.
  bool lost = false;

  std::optional<std::string> model;
  std::optional<std::string> uuid;
  std::optional<std::string> driver_version;  // "580.82.07"
  std::optional<std::string> cuda_version;    // the newest that the driver runs: "13.0"
  DeviceTelemetry telemetry;
};

class Nvml {
 public:
  using Loader = const nvml::Api* (*)(std::string* why);
  explicit Nvml(Loader load = nvml::Load);
  // Does not wait for a call that hangs.
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  // Waits `patience` at most.
  NvmlReading Read(const NvmlIdentity& device, absl::Duration patience);

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

// The process's. Never destroyed.
Nvml& SharedNvml();

}  // namespace tensord::cuda
