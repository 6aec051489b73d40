// The part of NVML that we call, declared here: its header comes with no toolkit, and its library with the driver alone,
// where it is opened at run time. Types and numbers are NVML's ABI, stable since driver 450.
//
//   std::string why;
//   const nvml::Api* api = nvml::Load(&why);        // null: `why` says what was looked for
//   if (api->DeviceName != nullptr) …               // a driver may lack any of them
//
// The table is filled by plugin/nvml_dlopen.cc from the library, and in the emulator by its fake (kernels/emulated/nvml.cc).
// Loading is thread safe and happens once. No call may be made before Init succeeded.
#pragma once

#include <string>

namespace tensord::cuda::nvml {

enum Return : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kLibraryNotFound = 12,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kLibraryMismatch = 18,
  kUnknown = 999,
};

struct DeviceOpaque;
using Device = DeviceOpaque*;

struct PciInfo {
  char bus_id_legacy[16];
  unsigned int domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
struct Utilization {
  unsigned int gpu, memory;  // per cent
};
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;  // kNotAvailable: cannot be told
  unsigned int gpu_instance, compute_instance;
};
static_assert(sizeof(PciInfo) == 68 && sizeof(Utilization) == 8 && sizeof(ProcessInfo) == 24);
inline constexpr unsigned long long kNotAvailable = ~0ULL;

enum Sensor : int { kSensorGpu = 0 };
enum Clock : int { kClockStreamingMultiprocessor = 1, kClockMemory = 2 };
enum MemoryError : int { kErrorUncorrected = 1 };
enum EccCounter : int { kSinceDriverLoad = 0 };

// X(member, symbol, parameters, required): every one returns Return. Without the required ones nothing can be told.
#define TENSORD_NVML_API(X)                                                                                  \
  X(Init, nvmlInit_v2, (), 1)                                                                                \
  X(Shutdown, nvmlShutdown, (), 1)                                                                           \
  X(DriverVersion, nvmlSystemGetDriverVersion, (char*, unsigned int), 0)                                     \
  X(CudaVersion, nvmlSystemGetCudaDriverVersion_v2, (int*), 0)                                               \
  X(ProcessName, nvmlSystemGetProcessName, (unsigned int pid, char*, unsigned int), 0)                       \
  X(DeviceByUuid, nvmlDeviceGetHandleByUUID, (const char*, Device*), 0)                                      \
  X(DeviceByPci, nvmlDeviceGetHandleByPciBusId_v2, (const char*, Device*), 1)                                \
  X(DeviceName, nvmlDeviceGetName, (Device, char*, unsigned int), 0)                                         \
  X(DeviceUuid, nvmlDeviceGetUUID, (Device, char*, unsigned int), 0)                                         \
  X(DevicePci, nvmlDeviceGetPciInfo_v3, (Device, PciInfo*), 0)                                               \
  X(DeviceUtilization, nvmlDeviceGetUtilizationRates, (Device, Utilization*), 0)                             \
  X(DeviceTemperature, nvmlDeviceGetTemperature, (Device, Sensor, unsigned int* celsius), 0)                 \
  X(DevicePower, nvmlDeviceGetPowerUsage, (Device, unsigned int* milliwatts), 0)                             \
  X(DevicePowerLimit, nvmlDeviceGetEnforcedPowerLimit, (Device, unsigned int* milliwatts), 0)                \
  X(DeviceFan, nvmlDeviceGetFanSpeed, (Device, unsigned int* percent), 0)                                    \
  X(DeviceClock, nvmlDeviceGetClockInfo, (Device, Clock, unsigned int* megahertz), 0)                        \
  X(DevicePerformanceState, nvmlDeviceGetPerformanceState, (Device, int*), 0)                                \
  X(DeviceEccErrors, nvmlDeviceGetTotalEccErrors, (Device, MemoryError, EccCounter, unsigned long long*), 0) \
  X(DeviceMigMode, nvmlDeviceGetMigMode, (Device, unsigned int* current, unsigned int* pending), 0)          \
  X(DeviceProcesses, nvmlDeviceGetComputeRunningProcesses_v3, (Device, unsigned int* count, ProcessInfo*), 0)

struct Api {
#define TENSORD_NVML_MEMBER(member, symbol, parameters, required) Return(*member) parameters = nullptr;
  TENSORD_NVML_API(TENSORD_NVML_MEMBER)
#undef TENSORD_NVML_MEMBER
};

// "GPU is lost (15)".
std::string ReturnText(Return code);

// The table, or null with the reason. Never unloaded.
const Api* Load(std::string* why);

}  // namespace tensord::cuda::nvml
