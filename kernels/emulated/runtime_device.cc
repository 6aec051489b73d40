// Devices: what they are, which one is a thread's, who reaches whom.
#include <cstdio>
#include <cstring>

#include "kernels/emulated/runtime.h"

using tensord::emulated::Api;
using tensord::emulated::Lock;
using tensord::emulated::Runtime;

namespace tensord::emulated {
namespace {

constexpr int kMajor = 9;
constexpr int kMinor = 0;
constexpr int kPciDomains = 255;

// Made up, but the same at every start: identity is what UUID and bus id are for.
int PciDomain(int device) { return device / kPciDomains; }
int PciBus(int device) { return device % kPciDomains + 1; }

cudaUUID_t Uuid(int device) {
  cudaUUID_t uuid = {};
  const unsigned char head[] = {0xe3, 0xa1, 0xc0, 0xde, 0x00, 0x00, 0x40, 0x00, 0x80, 0x00};
  std::memcpy(uuid.bytes, head, sizeof(head));
  for (int i = 0; i < 4; ++i) uuid.bytes[15 - i] = static_cast<char>(device >> (8 * i) & 0xff);
  return uuid;
}

void Describe(const Runtime& runtime, int device, size_t total, cudaDeviceProp& p) {
  std::memset(static_cast<void*>(&p), 0, sizeof(p));
  std::snprintf(p.name, sizeof(p.name), "Emulated CUDA device");
  p.uuid = Uuid(device);
  p.totalGlobalMem = total;
  p.sharedMemPerBlock = size_t{48} << 10;
  p.sharedMemPerBlockOptin = size_t{227} << 10;
  p.sharedMemPerMultiprocessor = size_t{228} << 10;
  p.reservedSharedMemPerBlock = 1024;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.warpSize = 32;
  p.memPitch = 0x7fffffff;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 65536;
  p.major = kMajor;
  p.minor = kMinor;
  p.multiProcessorCount = runtime.options.multiprocessors;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.concurrentKernels = 1;
  p.pciBusID = PciBus(device);
  p.pciDomainID = PciDomain(device);
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = 64;
  p.l2CacheSize = 1 << 20;
  p.streamPrioritiesSupported = 1;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  p.hostNumaId = -1;
}

cudaError_t Attribute(const cudaDeviceProp& p, cudaDeviceAttr attribute, int* value) {
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      break;
    case cudaDevAttrMaxBlockDimX:
      *value = p.maxThreadsDim[0];
      break;
    case cudaDevAttrMaxBlockDimY:
      *value = p.maxThreadsDim[1];
      break;
    case cudaDevAttrMaxBlockDimZ:
      *value = p.maxThreadsDim[2];
      break;
    case cudaDevAttrMaxGridDimX:
      *value = p.maxGridSize[0];
      break;
    case cudaDevAttrMaxGridDimY:
      *value = p.maxGridSize[1];
      break;
    case cudaDevAttrMaxGridDimZ:
      *value = p.maxGridSize[2];
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(p.sharedMemPerMultiprocessor);
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = static_cast<int>(p.reservedSharedMemPerBlock);
      break;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      break;
    case cudaDevAttrConcurrentKernels:
      *value = p.concurrentKernels;
      break;
    case cudaDevAttrPciBusId:
      *value = p.pciBusID;
      break;
    case cudaDevAttrPciDeviceId:
      *value = p.pciDeviceID;
      break;
    case cudaDevAttrPciDomainId:
      *value = p.pciDomainID;
      break;
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = p.memoryBusWidth;
      break;
    case cudaDevAttrL2CacheSize:
      *value = p.l2CacheSize;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = p.maxThreadsPerMultiProcessor;
      break;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      *value = p.maxBlocksPerMultiProcessor;
      break;
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      *value = p.regsPerMultiprocessor;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = p.asyncEngineCount;
      break;
    case cudaDevAttrUnifiedAddressing:
      *value = p.unifiedAddressing;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      break;
    case cudaDevAttrStreamPrioritiesSupported:
      *value = p.streamPrioritiesSupported;
      break;
    case cudaDevAttrHostRegisterSupported:
      *value = p.hostRegisterSupported;
      break;
    case cudaDevAttrMemoryPoolsSupported:
      *value = p.memoryPoolsSupported;
      break;
    case cudaDevAttrHostNumaId:
      *value = p.hostNumaId;
      break;
    case cudaDevAttrClockRate:  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 1000000;
      break;
    case cudaDevAttrIntegrated:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrComputeMode:
    case cudaDevAttrEccEnabled:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrPageableMemoryAccess:
    case cudaDevAttrCooperativeLaunch:
      *value = 0;
      break;
    default:
      return cudaErrorInvalidValue;
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace tensord::emulated

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaGetDeviceCount, false, [&](Lock&) {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = runtime.device_count();
    return cudaSuccess;
  });
}

cudaError_t cudaGetDevice(int* device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaGetDevice, false, [&](Lock&) {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = runtime.device_index();
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaSetDevice, false, [&](Lock&) {
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    runtime.set_device_index(device);
    return cudaSuccess;
  });
}

cudaError_t cudaInitDevice(int device, unsigned int, unsigned int) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaInitDevice, false, [&](Lock&) {
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    return runtime.DeviceAt(device).sticky;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int) {
  return Runtime::Get().Call(Api::cudaSetDeviceFlags, false, [&](Lock&) { return cudaSuccess; });
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp* properties, int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaGetDeviceProperties, false, [&](Lock&) {
    if (properties == nullptr) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    tensord::emulated::Describe(runtime, device, runtime.DeviceAt(device).total, *properties);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, enum cudaDeviceAttr attribute, int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceGetAttribute, false, [&](Lock&) {
    if (value == nullptr) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    cudaDeviceProp properties;
    tensord::emulated::Describe(runtime, device, runtime.DeviceAt(device).total, properties);
    return tensord::emulated::Attribute(properties, attribute, value);
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceGetPCIBusId, false, [&](Lock&) {
    constexpr int kNeeded = 13;
    if (text == nullptr || length < kNeeded) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device)) return cudaErrorInvalidDevice;
    std::snprintf(text, static_cast<size_t>(length), "%04X:%02X:00.0", tensord::emulated::PciDomain(device),
                  tensord::emulated::PciBus(device));
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceGetByPCIBusId, false, [&](Lock&) {
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (device == nullptr || text == nullptr) return cudaErrorInvalidValue;
    if (std::sscanf(text, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) return cudaErrorInvalidValue;
    for (int i = 0; i < runtime.device_count(); ++i) {
      if (static_cast<int>(domain) == tensord::emulated::PciDomain(i) && slot == 0 &&
          static_cast<int>(bus) == tensord::emulated::PciBus(i)) {
        *device = i;
        return cudaSuccess;
      }
    }
    return cudaErrorInvalidDevice;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return Runtime::Get().Call(Api::cudaDeviceGetStreamPriorityRange, true, [&](Lock&) {
    if (least != nullptr) *least = 0;
    if (greatest != nullptr) *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize(void) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceSynchronize, true,
                      [&](Lock& lock) { return runtime.WaitDevice(lock, runtime.device_index()); });
}

// CUDA's documentation asks for a new process after a sticky error; so a reset heals nothing here.
cudaError_t cudaDeviceReset(void) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceReset, true,
                      [&](Lock& lock) { return runtime.WaitDevice(lock, runtime.device_index()); });
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceCanAccessPeer, false, [&](Lock&) {
    if (can == nullptr) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(device) || !runtime.HasDevice(peer)) return cudaErrorInvalidDevice;
    *can = device != peer && runtime.options.peers ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceEnablePeerAccess, true, [&](Lock&) {
    if (flags != 0) return cudaErrorInvalidValue;
    if (!runtime.HasDevice(peer) || peer == runtime.device_index()) return cudaErrorInvalidDevice;
    if (!runtime.options.peers) return cudaErrorPeerAccessUnsupported;
    if (!runtime.device().peers.insert(peer).second) return cudaErrorPeerAccessAlreadyEnabled;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaDeviceDisablePeerAccess, true, [&](Lock&) {
    if (!runtime.HasDevice(peer)) return cudaErrorInvalidDevice;
    return runtime.device().peers.erase(peer) == 0 ? cudaErrorPeerAccessNotEnabled : cudaSuccess;
  });
}

}  // extern "C"
