// CUDA errors as statuses, and the size of a grid.
#include <algorithm>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {
namespace {

// Errors after which CUDA gives the same error to every later call of the process: the context is gone, or the device.
bool IsSticky(cudaError_t error) {
  switch (static_cast<int>(error)) {
    case cudaErrorCudartUnloading:
    case cudaErrorDevicesUnavailable:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContained:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorContextIsDestroyed:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case 717:  // cudaErrorInvalidAddressSpace
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorExternalDevice:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::Status ToStatus(cudaError_t error, const DeviceTraits& traits, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // told; the next launch is not blamed for it
  const std::string cause = StrCat(what, ": ", cudaGetErrorName(error), " (", cudaGetErrorString(error), ")");
  if (IsSticky(error)) return Error(Reason::kDeviceLost).With("device", traits.id.ToString()).With("cause", cause);
  if (error == cudaErrorMemoryAllocation) {
    // Who asked for a known number of bytes says so itself (memory.cc); here the driver wanted room of its own.
    size_t free = 0;
    size_t total = 0;
    if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = 0;
    return Error(Reason::kMemoryExhausted)
        .With("device", traits.id.ToString())
        .Say("requested", "more")
        .With("free", free)
        .With("cached", 0)
        .With("call", what);
  }
  return Error(Reason::kInternal).With("id", traits.id.ToString()).With("cause", cause);
}

unsigned GridFor(int64_t n, int threads, const DeviceTraits& traits) {
  const int64_t wanted = (n + threads - 1) / threads;
  const int64_t resident = int64_t{traits.multiprocessors} * std::max(1, traits.threads_per_multiprocessor / threads);
  return static_cast<unsigned>(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(resident, 1)));
}

}  // namespace tensord::cuda
