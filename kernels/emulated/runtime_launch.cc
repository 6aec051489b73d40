// Launches: limits, a copy of the arguments, the operation that runs the grid.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/emulated/kernel.h"
#include "kernels/emulated/runtime.h"

namespace tensord::emulated {
namespace {

constexpr uint64_t kMaxThreads = 1024;
constexpr unsigned kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 0x7fffffff;
constexpr unsigned kMaxGridYz = 65535;
constexpr size_t kDefaultDynamicShared = size_t{48} << 10;
constexpr int kMaxDynamicShared = 227 << 10;

const Kernel* first_kernel = nullptr;
const Kernel* (*kernel_of_stub)(const void* function) = nullptr;

bool WithinLimits(const dim3& grid, const dim3& block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || block.x == 0 || block.y == 0 || block.z == 0) return false;
  if (grid.x > kMaxGridX || grid.y > kMaxGridYz || grid.z > kMaxGridYz) return false;
  if (block.x > kMaxThreads || block.y > kMaxThreads || block.z > kMaxBlockZ) return false;
  return uint64_t{block.x} * block.y * block.z <= kMaxThreads;
}

// The arguments of one launch by value, each aligned for any type.
struct Packed {
  std::vector<std::max_align_t> storage;
  std::vector<void*> pointers;
};

std::shared_ptr<Packed> Pack(const Kernel& kernel, void** arguments) {
  auto packed = std::make_shared<Packed>();
  size_t units = 0;
  const auto units_of = [](size_t bytes) { return (bytes + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t); };
  for (uint32_t i = 0; i < kernel.argument_count; ++i) units += units_of(kernel.argument_sizes[i]);
  packed->storage.resize(units);
  units = 0;
  for (uint32_t i = 0; i < kernel.argument_count; ++i) {
    packed->pointers.push_back(packed->storage.data() + units);
    std::memcpy(packed->pointers.back(), arguments[i], kernel.argument_sizes[i]);
    units += units_of(kernel.argument_sizes[i]);
  }
  return packed;
}

cudaError_t LaunchIn(Runtime& runtime, Lock& lock, const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes,
                     cudaStream_t stream, void** arguments, bool flat) {
  const std::shared_ptr<Stream> target = runtime.FindStream(stream);
  // A kernel runs where the stream is, and the stream must be the current device's.
  if (target == nullptr || target->device != runtime.device_index()) return cudaErrorInvalidResourceHandle;
  if (!WithinLimits(grid, block)) return cudaErrorInvalidConfiguration;
  const auto limit = runtime.dynamic_shared_limits.find(kernel.function);
  if (shared_bytes >
      (limit == runtime.dynamic_shared_limits.end() ? kDefaultDynamicShared : static_cast<size_t>(limit->second))) {
    return cudaErrorInvalidValue;
  }
  GridLaunch launch;
  launch.kernel = &kernel;
  launch.grid = grid;
  launch.block = block;
  launch.shared_bytes = shared_bytes;
  launch.flat = flat;
  launch.fibers = runtime.options.flat_on_fibers;
  launch.order = runtime.options.order;
  // Far apart for neighbouring seeds and launches.
  launch.seed = Random(Random(runtime.options.seed).Next() + ++runtime.launches).Next();
  return runtime.Push(lock, target, [&runtime, launch, packed = Pack(kernel, arguments)] {
    GridLaunch run = launch;
    run.arguments = packed->pointers.data();
    GridResult result;
    {
      const DeviceAccess access;
      result = RunGrid(run);
    }
    if (result.text[0] != '\0') {
      const Lock report_lock(runtime.mutex());
      runtime.Report(result.text);
    }
    return result.error;
  });
}

// Where the launch does not say: flat if every launch that says so is.
bool IsFlat(const Kernel& kernel) { return kernel.launched_flat && !kernel.launched_on_fibers; }

const Kernel* KernelAt(const void* function) {
  if (kernel_of_stub != nullptr) {
    if (const Kernel* kernel = kernel_of_stub(function); kernel != nullptr) return kernel;
  }
  for (const Kernel* kernel = first_kernel; kernel != nullptr; kernel = kernel->next) {
    if (kernel->function == function) return kernel;
  }
  return nullptr;
}

}  // namespace

bool Register(const Kernel& kernel) {
  kernel.next = first_kernel;
  first_kernel = &kernel;
  return true;
}

bool RegisterLaunch(const Kernel& kernel, bool flat) {
  (flat ? kernel.launched_flat : kernel.launched_on_fibers) = true;
  return true;
}

const Kernel* FirstKernel() { return first_kernel; }
void SetKernelOfStub(const Kernel* (*find)(const void* function)) { kernel_of_stub = find; }

cudaError_t Launch(const Kernel& kernel, dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                   void** arguments, bool flat) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaLaunchKernelExC, true, [&](Lock& lock) {
    return LaunchIn(runtime, lock, kernel, grid, block, shared_bytes, stream, arguments, flat);
  });
}

}  // namespace tensord::emulated

using tensord::emulated::Api;
using tensord::emulated::Kernel;
using tensord::emulated::Lock;
using tensord::emulated::Runtime;

extern "C" {

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments, size_t shared_bytes,
                             cudaStream_t stream) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaLaunchKernel, true, [&](Lock& lock) {
    const Kernel* kernel = tensord::emulated::KernelAt(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    return tensord::emulated::LaunchIn(runtime, lock, *kernel, grid, block, shared_bytes, stream, arguments,
                                       tensord::emulated::IsFlat(*kernel));
  });
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* function, void** arguments) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaLaunchKernelExC, true, [&](Lock& lock) {
    if (config == nullptr) return cudaErrorInvalidValue;
    const Kernel* kernel = tensord::emulated::KernelAt(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    return tensord::emulated::LaunchIn(runtime, lock, *kernel, config->gridDim, config->blockDim,
                                       config->dynamicSmemBytes, config->stream, arguments,
                                       tensord::emulated::IsFlat(*kernel));
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, enum cudaFuncAttribute attribute, int value) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaFuncSetAttribute, true, [&](Lock&) {
    const Kernel* kernel = tensord::emulated::KernelAt(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout) return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaErrorInvalidValue;
    if (value < 0 || value > tensord::emulated::kMaxDynamicShared) return cudaErrorInvalidValue;
    runtime.dynamic_shared_limits[kernel->function] = value;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes* attributes, const void* function) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaFuncGetAttributes, true, [&](Lock&) {
    if (attributes == nullptr) return cudaErrorInvalidValue;
    const Kernel* kernel = tensord::emulated::KernelAt(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *attributes = cudaFuncAttributes();
    attributes->maxThreadsPerBlock = static_cast<int>(tensord::emulated::kMaxThreads);
    attributes->numRegs = 32;
    attributes->ptxVersion = attributes->binaryVersion = 90;
    const auto limit = runtime.dynamic_shared_limits.find(kernel->function);
    attributes->maxDynamicSharedSizeBytes = limit == runtime.dynamic_shared_limits.end()
                                                ? static_cast<int>(tensord::emulated::kDefaultDynamicShared)
                                                : limit->second;
    return cudaSuccess;
  });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function, int block_size,
                                                          size_t dynamic_shared_bytes) {
  Runtime& runtime = Runtime::Get();
  return runtime.Call(Api::cudaOccupancyMaxActiveBlocksPerMultiprocessor, true, [&](Lock&) {
    constexpr int kThreadsPerMultiprocessor = 2048;
    constexpr int kMaxBlocks = 32;
    if (blocks == nullptr || block_size <= 0 || block_size > static_cast<int>(tensord::emulated::kMaxThreads)) {
      return cudaErrorInvalidValue;
    }
    if (tensord::emulated::KernelAt(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    int fit = std::min(kThreadsPerMultiprocessor / block_size, kMaxBlocks);
    if (dynamic_shared_bytes != 0) {
      fit = std::min(fit, static_cast<int>((size_t{228} << 10) / (dynamic_shared_bytes + 1024)));
    }
    *blocks = fit;
    return cudaSuccess;
  });
}

}  // extern "C"
