// What device code includes, and nothing else of CUDA: one source, compiled by nvcc for the hardware and by g++ for the
// emulator (kernels/emulated).
//
//   template <class T>
//   __global__ void Scale(T* x, T by, int64_t n) {
//     for (int64_t i = FirstIndex(); i < n; i += IndexStep()) x[i] *= by;
//   }
//   cudaError_t e = TENSORD_LAUNCH_FLAT(Scale<float>, grid, 256, stream, x, 2.0F, n);
//
// Allowed in kernels: threadIdx blockIdx blockDim gridDim, __syncthreads, __syncwarp, __shfl_*_sync, __ballot_sync
// __any_sync __all_sync, atomicAdd atomicMin atomicMax atomicCAS atomicExch, __ldg, math, templates, functors, parameter
// structs of up to 4 KiB. Not: raw __shared__, <<<>>>, device globals, cooperative groups, tensor cores, CUB, inline
// PTX; what needs those goes behind a seam with an emulated twin.
//
//   TENSORD_SHARED(T, name, dims…)     shared memory of the block; static size
//   TENSORD_DYNAMIC_SHARED(T, name)    the launch's shared bytes, as a T*
//   TENSORD_LAUNCH(kernel, grid, block, shared_bytes, stream, args…)   cudaError_t of the launch
//   TENSORD_LAUNCH_FLAT(kernel, grid, block, stream, args…)            the same for a kernel whose threads neither wait for
//                                      one another nor exchange values: the emulator then needs no fibers
// A kernel with template arguments is passed in parentheses where it has a comma: TENSORD_LAUNCH((Sum<T, 4>), …).
#pragma once

#if defined(__CUDACC__)
#include "kernels/cuda/portable_nvcc.h"
#else
#include "kernels/emulated/device.h"
#endif

#include <cstdint>

namespace tensord::cuda {

// The flat index of this thread, and how many threads there are: a loop over elements of any count.
__device__ __forceinline__ int64_t FirstIndex() { return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ int64_t IndexStep() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace tensord::cuda
