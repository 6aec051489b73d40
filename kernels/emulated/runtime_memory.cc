// Device and pinned memory: allocation and what can be asked of pointers.
#include <utility>

#include "kernels/emulated/runtime.h"

using tensord::emulated::Allocation;
using tensord::emulated::Api;
using tensord::emulated::Device;
using tensord::emulated::Lock;
using tensord::emulated::MemoryTable;
using tensord::emulated::Runtime;

namespace {

cudaError_t AllocateHost(Api api, void** data, size_t bytes) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(api, true, [&](Lock&) {
    if (data == nullptr) return cudaErrorInvalidValue;
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    Allocation* allocation = runtime.memory.Allocate(bytes, -1, runtime.options.guard_pages, false);
    if (allocation == nullptr) return cudaErrorMemoryAllocation;
    *data = allocation->data;
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMemGetInfo, true, [&](Lock&) {
    if (free == nullptr || total == nullptr) return cudaErrorInvalidValue;
    *free = runtime.device().total - runtime.device().used;
    *total = runtime.device().total;
    return cudaSuccess;
  });
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaMalloc, true, [&](Lock&) {
    if (data == nullptr) return cudaErrorInvalidValue;
    *data = nullptr;
    if (bytes == 0) return cudaSuccess;
    Device& device = runtime.device();
    if (bytes > device.total || MemoryTable::Charged(bytes) > device.total - device.used) {
      return cudaErrorMemoryAllocation;
    }
    Allocation* allocation =
        runtime.memory.Allocate(bytes, runtime.device_index(), runtime.options.guard_pages, runtime.options.fill_fresh);
    if (allocation == nullptr) return cudaErrorMemoryAllocation;
    device.used += allocation->charged;
    *data = allocation->data;
    return cudaSuccess;
  });
}

// Waits for the device: work that uses the memory may still be on its way.
cudaError_t cudaFree(void* data) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaFree, true, [&](Lock& lock) {
    if (data == nullptr) return cudaSuccess;
    const Allocation* found = runtime.memory.Find(data);
    if (found == nullptr || found->device < 0 || found->data != data) return cudaErrorInvalidValue;
    const int device = found->device;
    if (const cudaError_t error = runtime.WaitDevice(lock, device); error != cudaSuccess) return error;
    Allocation* allocation = runtime.memory.Find(data);
    if (allocation == nullptr || allocation->data != data) return cudaErrorInvalidValue;
    if (allocation->pool != nullptr) {
      runtime.FreeInPool(allocation);
    } else {
      runtime.DeviceAt(device).used -= allocation->charged;
      runtime.memory.Free(allocation);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaMallocHost(void** data, size_t bytes) { return AllocateHost(Api::cudaMallocHost, data, bytes); }
cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned int) {
  return AllocateHost(Api::cudaHostAlloc, data, bytes);
}

cudaError_t cudaFreeHost(void* data) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaFreeHost, true, [&](Lock& lock) {
    if (data == nullptr) return cudaSuccess;
    const Allocation* found = runtime.memory.Find(data);
    if (found == nullptr || found->device >= 0 || found->registered || found->data != data)
      return cudaErrorInvalidValue;
    for (int i = 0; i < runtime.device_count(); ++i) runtime.WaitDevice(lock, i);
    Allocation* allocation = runtime.memory.Find(data);
    if (allocation == nullptr || allocation->data != data) return cudaErrorInvalidValue;
    runtime.memory.Free(allocation);
    return cudaSuccess;
  });
}

cudaError_t cudaHostRegister(void* data, size_t bytes, unsigned int) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaHostRegister, true, [&](Lock&) {
    if (data == nullptr || bytes == 0) return cudaErrorInvalidValue;
    return runtime.memory.Adopt(static_cast<char*>(data), bytes) == nullptr ? cudaErrorHostMemoryAlreadyRegistered
                                                                            : cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* data) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaHostUnregister, true, [&](Lock& lock) {
    const Allocation* found = runtime.memory.Find(data);
    if (found == nullptr || !found->registered || found->data != data) return cudaErrorHostMemoryNotRegistered;
    for (int i = 0; i < runtime.device_count(); ++i) runtime.WaitDevice(lock, i);
    Allocation* allocation = runtime.memory.Find(data);
    if (allocation == nullptr || !allocation->registered) return cudaErrorHostMemoryNotRegistered;
    runtime.memory.Free(allocation);
    return cudaSuccess;
  });
}

// Unified addressing: a device uses pinned memory by the host's address.
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned int flags) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaHostGetDevicePointer, true, [&](Lock&) {
    if (device == nullptr || flags != 0) return cudaErrorInvalidValue;
    const Allocation* allocation = runtime.memory.Find(host);
    if (allocation == nullptr || allocation->device >= 0) return cudaErrorInvalidValue;
    *device = host;
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes* attributes, const void* data) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaPointerGetAttributes, true, [&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    *attributes = cudaPointerAttributes();
    attributes->device = -2;  // CUDA's cudaInvalidDeviceId: nobody's
    const Allocation* allocation = runtime.memory.Find(data);
    void* address = const_cast<void*>(data);
    if (allocation == nullptr) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->hostPointer = address;
      return cudaSuccess;
    }
    attributes->devicePointer = address;
    if (allocation->device >= 0) {
      attributes->type = cudaMemoryTypeDevice;
      attributes->device = allocation->device;
    } else {
      attributes->type = cudaMemoryTypeHost;
      attributes->device = runtime.device_index();
      attributes->hostPointer = address;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
