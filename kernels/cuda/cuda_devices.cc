// Which devices the CUDA runtime shows, in the order of their PCI bus ids.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "kernels/core/text.h"
#include "kernels/cuda/cuda_backend.h"

namespace tensord::cuda {
namespace {

std::string UuidText(const cudaUUID_t& uuid, bool instance) {
  std::string text = instance ? "MIG-" : "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    std::array<char, 3> byte;
    std::snprintf(byte.data(), byte.size(), "%02x", static_cast<unsigned char>(uuid.bytes[i]));
    text += byte.data();
  }
  return text;
}

std::string ErrorText(cudaError_t error) {
  cudaGetLastError();
  return StrCat(cudaGetErrorName(error), " (", static_cast<int>(error), "): ", cudaGetErrorString(error));
}

}  // namespace

CudaDevices ListCudaDevices() {
  CudaDevices found;
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    found.why = ErrorText(error);
    return found;
  }
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CudaDevice device;
    device.ordinal = ordinal;
    cudaDeviceProp properties{};
    std::array<char, 32> bus{};
    cudaError_t error = cudaGetDeviceProperties(&properties, ordinal);
    if (error == cudaSuccess) error = cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), ordinal);
    if (error != cudaSuccess) {
      found.why = StrCat("device ", ordinal, ": ", ErrorText(error));  // the others are still there
      continue;
    }
    device.model = properties.name;
    // The runtime gives an instance's own UUID and says only in the name that it is one.
    device.uuid = UuidText(properties.uuid, device.model.find(" MIG ") != std::string::npos);
    device.pci_bus_id = bus.data();
    found.devices.push_back(std::move(device));
  }
  std::stable_sort(found.devices.begin(), found.devices.end(),
                   [](const CudaDevice& a, const CudaDevice& b) { return a.pci_bus_id < b.pci_bus_id; });
  for (size_t i = 0; i < found.devices.size(); ++i) {
    found.devices[i].id = DeviceId{DeviceKind::kCuda, static_cast<uint32_t>(i)};
  }
  if (found.devices.empty() && found.why.empty()) found.why = "the CUDA runtime shows no device";
  return found;
}

}  // namespace tensord::cuda
