// The CUDA runtime API as far as tensord uses it: our own declarations, equal to CUDA 13's in binary form, so that host
// code builds on machines without the toolkit and links to libcudart or to the fake alike. Comes before the toolkit's
// header on the include path of host code; nvcc never sees it.
//
// Only what is declared here may be used. A new function is one line in cuda_functions.inc and its definition in the
// fake; where a toolkit is installed, checks/declarations.cc compares every line with it at compile time.
//
//   void* data = nullptr;
//   if (cudaError_t e = cudaMalloc(&data, 4096); e != cudaSuccess) return cudaGetErrorString(e);
#pragma once

#include <stddef.h>

#include "cuda_errors.inc"
#include "cuda_functions.inc"

#define CUDART_VERSION 13000
#define CUDART_CB

#define cudaHostAllocDefault 0x00
#define cudaHostAllocPortable 0x01
#define cudaHostAllocMapped 0x02
#define cudaHostAllocWriteCombined 0x04
#define cudaHostRegisterDefault 0x00
#define cudaHostRegisterPortable 0x01
#define cudaStreamDefault 0x00
#define cudaStreamNonBlocking 0x01
#define cudaStreamLegacy ((cudaStream_t)0x1)
#define cudaStreamPerThread ((cudaStream_t)0x2)
#define cudaEventDefault 0x00
#define cudaEventBlockingSync 0x01
#define cudaEventDisableTiming 0x02
#define cudaEventWaitDefault 0x00
#define cudaDeviceScheduleAuto 0x00
#define cudaDeviceScheduleSpin 0x01
#define cudaDeviceScheduleYield 0x02
#define cudaDeviceScheduleBlockingSync 0x04

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

#include "cuda_types.inc"

#define X(result, name, parameters) result name parameters;
TENSORD_CUDA_FUNCTIONS(X)
#undef X

#ifdef __cplusplus
// Defaults as in CUDA's header.
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream = 0);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, enum cudaMemcpyKind kind, cudaStream_t stream = 0);
cudaError_t cudaMemcpyPeerAsync(void* to, int to_device, const void* from, int from_device, size_t bytes,
                                cudaStream_t stream = 0);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream = 0);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags = 0);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream = 0);
}
#endif
#pragma GCC visibility pop
