// What the host and the kernels of Norm share. Tensors are contiguous and of one dtype; parameters may be null.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/reduce_divisor.cuh"

namespace tensord::cuda {

inline constexpr int kNormThreads = 256;
// Elements up to which a group of up to 32 lanes keeps a row in registers.
inline constexpr int64_t kNormGroupRow = 256;
// Bytes of shared memory that a longer row may take.
inline constexpr int64_t kNormRowBytes = 32 * 1024;

// rows x n, each row normalised; weight and bias have n elements.
struct LayerNormParams {
  const void* x = nullptr;
  void* out = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  int64_t rows = 1;
  int64_t n = 1;
  double epsilon = 0;
  bool kept = false;  // rows: in shared memory
  int32_t width = 1;  // groups: lanes to a row, a power of two
};

// (batch, channels, space): out = (x - mean) * scale + bias of the channel.
struct BatchNormParams {
  const void* x = nullptr;
  void* out = nullptr;
  const void* mean = nullptr;
  const void* variance = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* scale = nullptr;  // weight / sqrt(variance + epsilon), in what the dtype computes in
  int64_t elements = 0;
  Divisor channels;
  Divisor space;
  double epsilon = 0;
};

// dtype is real. Groups: n is at most kNormGroupRow.
cudaError_t LaunchLayerNormGroups(Dtype dtype, const LayerNormParams& params, unsigned blocks, cudaStream_t stream);
cudaError_t LaunchLayerNormRows(Dtype dtype, const LayerNormParams& params, unsigned blocks, cudaStream_t stream);
// Fills params.scale, and uses it.
cudaError_t LaunchBatchNormScale(Dtype dtype, const BatchNormParams& params, unsigned blocks, cudaStream_t stream);
cudaError_t LaunchBatchNorm(Dtype dtype, const BatchNormParams& params, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
