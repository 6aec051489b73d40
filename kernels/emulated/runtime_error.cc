// Errors and versions.
#include "kernels/emulated/runtime.h"

using tensord::emulated::Api;
using tensord::emulated::Lock;
using tensord::emulated::Runtime;

extern "C" {

// A device's sticky error is everybody's last error.
cudaError_t cudaGetLastError(void) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  const cudaError_t last = tensord::emulated::TakeLastError();
  if (runtime.device_count() != 0 && runtime.device().sticky != cudaSuccess) return runtime.device().sticky;
  return last;
}

cudaError_t cudaPeekAtLastError(void) {
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  if (runtime.device_count() != 0 && runtime.device().sticky != cudaSuccess) return runtime.device().sticky;
  return tensord::emulated::PeekLastError();
}

const char* cudaGetErrorName(cudaError_t error) {
  switch (error) {
#define X(name, value) \
  case name:           \
    return #name;
    TENSORD_CUDA_ERRORS(X)
#undef X
  }
  return "unrecognized error code";
}

// CUDA's own sentences are longer; the name says as much.
const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorLaunchFailure:
      return "unspecified launch failure";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    default:
      return cudaGetErrorName(error);
  }
}

cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  // 0 is what a machine without a driver says.
  Runtime& runtime = Runtime::Get();
  const Lock lock(runtime.mutex());
  *version = runtime.options.startup_error == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = CUDART_VERSION;
  return cudaSuccess;
}

}  // extern "C"
