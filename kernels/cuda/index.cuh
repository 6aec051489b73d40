// Kernels of take.
//
// Standard library only; shared with device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace tensord::cuda {

inline constexpr int kIndexThreads = 256;

// places[i] = indices[i] counted from the start, in [0, size). An index that lies nowhere becomes 0, and the smallest
// such i is told by its complement in `report`, which was 0.
struct CheckIndices {
  const void* indices;  // contiguous
  int64_t count;
  int64_t size;
  int64_t* places;
  unsigned long long* report;
  Dtype dtype;
};
cudaError_t LaunchCheckIndices(const CheckIndices& check, unsigned blocks, cudaStream_t stream);

// to[o, i, u] = from[o · outer_stride + places[i] · axis_stride + u], in units of `item` bytes; `to` is contiguous.
struct TakeUnits {
  const void* from;
  void* to;
  const int64_t* places;
  int64_t outer, count, inner;
  int64_t outer_stride, axis_stride;
  int32_t item;  // 1, 2, 4, 8 or 16
};
cudaError_t LaunchTake(const TakeUnits& take, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
