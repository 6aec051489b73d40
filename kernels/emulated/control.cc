#include "kernels/emulated/control.h"

#include <utility>

#include "kernels/emulated/runtime.h"

namespace tensord::emulated {

void Configure(const Options& options) { Runtime::Get().Configure(options); }
const Options& CurrentOptions() { return Runtime::Get().options; }

void SetMode(Mode mode) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.options.mode = mode;
}

void SetOrder(Order order, uint64_t seed) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.options.order = order;
  runtime.options.seed = seed;
}

const char* NameOf(Api api) {
  static constexpr const char* kNames[] = {
#define X(result, name, parameters) #name,
      TENSORD_CUDA_FUNCTIONS(X)
#undef X
          "any"};
  return kNames[static_cast<size_t>(api)];
}

void FailAfter(Api api, uint64_t calls, cudaError_t error, bool sticky) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.faults.push_back({api, calls, error, sticky});
}

void FailNth(uint64_t n, cudaError_t error, bool sticky) { FailAfter(Api::kCount, n - 1, error, sticky); }

void FailOperation(int device, uint64_t n, cudaError_t error) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.DeviceAt(device).fail_operation_in = n;
  runtime.DeviceAt(device).operation_error = error;
}

uint64_t CallCount() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.calls;
}

void KillDevice(int device, cudaError_t error) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.DeviceAt(device).sticky = error;
}

void Revive(int device) { KillDevice(device, cudaSuccess); }

void ClearFaults() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  runtime.faults.clear();
  for (int i = 0; i < runtime.device_count(); ++i) runtime.DeviceAt(i).fail_operation_in = 0;
}

size_t LiveAllocations() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.memory.size();
}

size_t UsedBytes(int device) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.DeviceAt(device).used;
}

size_t LiveStreams() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.streams.size();
}

size_t LiveEvents() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.events.size();
}

std::vector<std::string> Reports() {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  return runtime.reports;
}

std::string LastReport() {
  std::vector<std::string> reports = Reports();
  return reports.empty() ? std::string() : std::move(reports.back());
}

cudaError_t Enqueue(cudaStream_t stream, std::function<cudaError_t()> work) {
  Runtime& runtime = Runtime::Get();
  Lock lock(runtime.mutex());
  const std::shared_ptr<Stream> target = runtime.FindStream(stream);
  if (target == nullptr) return cudaErrorInvalidResourceHandle;
  return runtime.Push(lock, target, [work = std::move(work)] {
    const DeviceAccess access;
    return work();
  });
}

}  // namespace tensord::emulated
