// What the host and the kernels of Softmax share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/reduce_divisor.cuh"

namespace tensord::cuda {

inline constexpr int kSoftmaxThreads = 256;
// Elements up to which a group of up to 32 lanes keeps a row in registers.
inline constexpr int64_t kSoftmaxGroupRow = 256;
// Bytes of shared memory that a longer row may take.
inline constexpr int64_t kSoftmaxRowBytes = 32 * 1024;

// A contiguous (outer, n, inner), worked on along n; n > 0.
struct SoftmaxParams {
  const void* x = nullptr;
  void* out = nullptr;
  int64_t outer = 1;
  int64_t n = 1;
  int64_t inner = 1;
  bool log = false;
  bool kept = false;  // rows: in shared memory
  int32_t width = 1;  // groups: lanes to a row; columns: neighbours to a block; a power of two
  Divisor across;     // columns: tiles of `width` neighbours
};

// dtype is real. Groups and rows: inner is 1; groups: n is at most kSoftmaxGroupRow.
cudaError_t LaunchSoftmaxGroups(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream);
cudaError_t LaunchSoftmaxRows(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream);
cudaError_t LaunchSoftmaxColumns(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
