// A CUDA device as a Backend. The same sources run on a GPU (in the plugin) and on the emulator.
//
//   const CudaDevices found = ListCudaDevices();
//   for (const CudaDevice& device : found.devices) {
//     auto backend = MakeCudaBackend({.device = device, .all = found.devices});
//   }
//
// One object is one device. Run enqueues on the device's compute stream and returns; transfers go over copy streams of
// their own, ordered after it. A sticky error latches: DEVICE_LOST with the cause from then on, without touching CUDA
// again; such an object can be destroyed and another be made. Until it is first used a backend holds a context and two
// streams, nothing else.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "kernels/backend.h"

namespace tensord::cuda {

class Nvml;

// A device that the CUDA runtime shows this process (CUDA_VISIBLE_DEVICES has been applied).
struct CudaDevice {
  DeviceId id;  // cuda:N, N counted by PCI bus id
  int ordinal = 0;
  std::string model;
  std::string uuid;  // "GPU-…", or "MIG-…" for an instance of a partitioned card
  std::string pci_bus_id;
};

struct CudaDevices {
  std::vector<CudaDevice> devices;  // by id
  std::string why;                  // where there are none: "cudaErrorNoDevice (100): no CUDA-capable device …"
};

// Makes no context. Thread safe.
CudaDevices ListCudaDevices();

struct CudaOptions {
  CudaDevice device;
  std::vector<CudaDevice> all;  // among which it finds its peers
  bool allow_tf32 = false;      // float32 products may use tensor cores: faster, 10 bits of mantissa
  bool emulated = false;
  Nvml* nvml = nullptr;                        // SharedNvml() where null; outlives the backend
  std::shared_ptr<void> driver;                // what the device stands on; let go after the backend's last call
  absl::Duration patience = absl::Seconds(1);  // with NVML
};

// Makes the device's context. Errors: DEVICE_LOST, MEMORY_EXHAUSTED (no room for the context), INTERNAL.
absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(const CudaOptions& options);

}  // namespace tensord::cuda
