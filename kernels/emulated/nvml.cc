// NVML for the emulator: the functions of kernels/cuda/nvml_api.h under their own names. The devices are the fake CUDA
// runtime's, found by UUID or PCI bus id, in another order than CUDA's. Readings are what tests set (nvml.h).
#include "kernels/emulated/nvml.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "kernels/cuda/nvml_api.h"

namespace tensord::emulated {
namespace {

using namespace cuda::nvml;  // NOLINT(google-build-using-namespace): the library this is a fake of

std::mutex mutex;
std::condition_variable changed;
NvmlControls controls;    // guarded by mutex
uint64_t generation = 0;  // guarded by mutex: counts SetNvml and ReleaseNvml
int hanging = 0;          // guarded by mutex: calls that hang now
int sessions = 0;         // guarded by mutex
int shutdowns = 0;        // guarded by mutex

// Every call passes here: it may hang, and it may have a result already.
std::optional<Return> Enter(const char* function, bool needs_session = true) {
  std::unique_lock lock(mutex);
  if (controls.hanging == function) {
    const uint64_t start = generation;
    ++hanging;
    changed.notify_all();
    changed.wait(lock, [&] { return generation != start; });
    --hanging;
  }
  if (const auto found = controls.results.find(function); found != controls.results.end()) {
    return static_cast<Return>(found->second);
  }
  if (needs_session && sessions == 0) return kUninitialized;
  return std::nullopt;
}

template <class Get>
auto Told(Get get) {
  const std::lock_guard lock(mutex);
  return get(controls);
}

template <class To, class From>
Return Give(To* to, const std::optional<From>& value) {
  if (!value.has_value()) return kNotSupported;
  *to = *value;
  return kSuccess;
}

Return GiveText(char* to, unsigned size, const std::optional<std::string>& text) {
  if (!text.has_value()) return kNotSupported;
  if (text->size() >= size) return kInsufficientSize;
  std::memcpy(to, text->c_str(), text->size() + 1);
  return kSuccess;
}

struct Identity {
  std::string uuid;
  std::string bus;
};
std::optional<Identity> IdentityOf(int ordinal) {
  cudaDeviceProp properties{};
  char bus[32] = "";
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess ||
      cudaDeviceGetPCIBusId(bus, sizeof(bus), ordinal) != cudaSuccess) {
    cudaGetLastError();
    return std::nullopt;
  }
  std::string uuid = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char byte[4];
    std::snprintf(byte, sizeof(byte), "%02x", static_cast<unsigned char>(properties.uuid.bytes[i]));
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += byte;
  }
  return Identity{uuid, bus};
}

template <class Match>
Return Find(Device* device, Match match) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess) cudaGetLastError();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    const std::optional<Identity> identity = IdentityOf(ordinal);
    if (!identity.has_value() || !match(*identity)) continue;
    *device = reinterpret_cast<Device>(static_cast<uintptr_t>(ordinal) + 1);
    return kSuccess;
  }
  return kNotFound;
}

int OrdinalOf(Device device) { return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1; }

}  // namespace

void SetNvml(const NvmlControls& wanted) {
  const std::lock_guard lock(mutex);
  controls = wanted;
  ++generation;
  changed.notify_all();
}

void ReleaseNvml() {
  const std::lock_guard lock(mutex);
  controls.hanging.clear();
  ++generation;
  changed.notify_all();
}

bool NvmlHangs() {
  const std::lock_guard lock(mutex);
  return hanging > 0;
}

int NvmlSessions() {
  const std::lock_guard lock(mutex);
  return sessions;
}

int NvmlShutdowns() {
  const std::lock_guard lock(mutex);
  return shutdowns;
}

}  // namespace tensord::emulated

using namespace tensord::cuda::nvml;  // NOLINT(google-build-using-namespace)
namespace fake = tensord::emulated;

#define TENSORD_ENTER(...) \
  if (const auto early = fake::Enter(__func__ __VA_OPT__(, ) __VA_ARGS__)) return *early
#define TENSORD_TOLD(member) fake::Told([](const fake::NvmlControls& c) { return c.member; })

extern "C" {

Return nvmlInit_v2() {
  TENSORD_ENTER(false);
  const std::lock_guard lock(fake::mutex);
  ++fake::sessions;
  return kSuccess;
}
Return nvmlShutdown() {
  TENSORD_ENTER();
  const std::lock_guard lock(fake::mutex);
  --fake::sessions;
  ++fake::shutdowns;
  return kSuccess;
}

Return nvmlSystemGetDriverVersion(char* text, unsigned size) {
  TENSORD_ENTER();
  return fake::GiveText(text, size, TENSORD_TOLD(driver_version));
}
Return nvmlSystemGetCudaDriverVersion_v2(int* version) {
  TENSORD_ENTER();
  return fake::Give(version, TENSORD_TOLD(cuda_version));
}
Return nvmlSystemGetProcessName(unsigned pid, char* text, unsigned size) {
  TENSORD_ENTER();
  for (const auto& process : TENSORD_TOLD(processes).value_or(std::vector<fake::NvmlControls::Process>{})) {
    if (process.pid != pid) continue;
    if (process.name.empty()) return kNoPermission;
    return fake::GiveText(text, size, process.name);
  }
  return kNotFound;
}

Return nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  TENSORD_ENTER();
  return fake::Find(device, [&](const fake::Identity& i) { return i.uuid == uuid; });
}
Return nvmlDeviceGetHandleByPciBusId_v2(const char* bus, Device* device) {
  TENSORD_ENTER();
  return fake::Find(device, [&](const fake::Identity& i) { return i.bus == bus; });
}
Return nvmlDeviceGetName(Device /*device*/, char* text, unsigned size) {
  TENSORD_ENTER();
  return fake::GiveText(text, size, TENSORD_TOLD(name));
}
Return nvmlDeviceGetUUID(Device device, char* text, unsigned size) {
  TENSORD_ENTER();
  const auto identity = fake::IdentityOf(fake::OrdinalOf(device));
  return identity.has_value() ? fake::GiveText(text, size, identity->uuid) : kGpuIsLost;
}
Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  TENSORD_ENTER();
  const auto identity = fake::IdentityOf(fake::OrdinalOf(device));
  if (!identity.has_value()) return kGpuIsLost;
  *info = {};
  std::snprintf(info->bus_id, sizeof(info->bus_id), "%s", identity->bus.c_str());
  return kSuccess;
}
Return nvmlDeviceGetUtilizationRates(Device /*device*/, Utilization* rates) {
  TENSORD_ENTER();
  const auto gpu = TENSORD_TOLD(utilization_percent);
  if (!gpu.has_value()) return kNotSupported;
  *rates = {*gpu, TENSORD_TOLD(memory_utilization_percent).value_or(0)};
  return kSuccess;
}
Return nvmlDeviceGetTemperature(Device /*device*/, Sensor /*sensor*/, unsigned* celsius) {
  TENSORD_ENTER();
  return fake::Give(celsius, TENSORD_TOLD(celsius));
}
Return nvmlDeviceGetPowerUsage(Device /*device*/, unsigned* milliwatts) {
  TENSORD_ENTER();
  return fake::Give(milliwatts, TENSORD_TOLD(milliwatts));
}
Return nvmlDeviceGetEnforcedPowerLimit(Device /*device*/, unsigned* milliwatts) {
  TENSORD_ENTER();
  return fake::Give(milliwatts, TENSORD_TOLD(milliwatts_limit));
}
Return nvmlDeviceGetFanSpeed(Device /*device*/, unsigned* percent) {
  TENSORD_ENTER();
  return fake::Give(percent, TENSORD_TOLD(fan_percent));
}
Return nvmlDeviceGetClockInfo(Device /*device*/, Clock clock, unsigned* megahertz) {
  TENSORD_ENTER();
  return fake::Give(megahertz, clock == kClockMemory ? TENSORD_TOLD(memory_megahertz) : TENSORD_TOLD(megahertz));
}
Return nvmlDeviceGetPerformanceState(Device /*device*/, int* state) {
  TENSORD_ENTER();
  return fake::Give(state, TENSORD_TOLD(performance_state));
}
Return nvmlDeviceGetTotalEccErrors(Device /*device*/, MemoryError /*error*/, EccCounter /*counter*/,
                                   unsigned long long* errors) {
  TENSORD_ENTER();
  return fake::Give(errors, TENSORD_TOLD(ecc_uncorrected));
}
Return nvmlDeviceGetMigMode(Device /*device*/, unsigned* current, unsigned* pending) {
  TENSORD_ENTER();
  *pending = 0;
  return fake::Give(current, TENSORD_TOLD(mig));
}
Return nvmlDeviceGetComputeRunningProcesses_v3(Device /*device*/, unsigned* count, ProcessInfo* list) {
  TENSORD_ENTER();
  const auto processes = TENSORD_TOLD(processes);
  if (!processes.has_value()) return kNotSupported;
  const auto wanted = static_cast<unsigned>(processes->size());
  const unsigned room = *count;
  *count = wanted;
  if (room < wanted) return kInsufficientSize;
  for (unsigned i = 0; i < wanted; ++i) list[i] = {(*processes)[i].pid, (*processes)[i].used_bytes, ~0U, ~0U};
  return kSuccess;
}

}  // extern "C"

namespace tensord::cuda::nvml {

const Api* Load(std::string* why) {
  static Api api;  // filled anew each time: what is missing changes between tests, which have one reader each
  const std::lock_guard lock(fake::mutex);
  if (fake::controls.absent) {
    *why = "libnvidia-ml.so.1: the fake is told to be absent";
    return nullptr;
  }
#define TENSORD_NVML_ENTRY(member, symbol, parameters, required) \
  api.member = fake::controls.missing.contains(#symbol) ? nullptr : &::symbol;
  TENSORD_NVML_API(TENSORD_NVML_ENTRY)
#undef TENSORD_NVML_ENTRY
  return &api;
}

}  // namespace tensord::cuda::nvml
