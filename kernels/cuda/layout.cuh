// Kernels that move elements without looking at them: between any two layouts, and transposes by tiles.
//
// Standard library only; shared with device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tensord::cuda {

// Collapsed dimensions have at least two elements each, and there is no memory for 2^40 of them.
inline constexpr int kCopyDims = 40;

// to[i · to_strides] = from[i · from_strides] for every i of `sizes`. Strides in units of `item` bytes.
struct StridedCopy {
  const void* from;
  void* to;
  int64_t elements;
  int64_t sizes[kCopyDims];
  int64_t from_strides[kCopyDims];
  int64_t to_strides[kCopyDims];
  int32_t rank;
  int32_t item;  // 1, 2, 4, 8 or 16
};
static_assert(sizeof(StridedCopy) <= 4096, "a kernel's parameters");

inline constexpr int kCopyThreads = 256;
cudaError_t LaunchStridedCopy(const StridedCopy& copy, unsigned blocks, cudaStream_t stream);

// A transpose over the last dimension (`columns`, dense in `to`) and another one (`rows`, dense in `from`), for every
// index of the other dimensions.
struct TransposeCopy {
  const void* from;
  void* to;
  int64_t rows, columns;
  int64_t from_column_stride;
  int64_t to_row_stride;
  int64_t row_tiles, column_tiles, tiles;  // of kTransposeTile; of all matrices together
  int64_t sizes[kCopyDims];                // the other dimensions
  int64_t from_strides[kCopyDims];
  int64_t to_strides[kCopyDims];
  int32_t rank;
  int32_t item;  // 1, 2, 4 or 8
};
static_assert(sizeof(TransposeCopy) <= 4096, "a kernel's parameters");

inline constexpr int kTransposeTile = 32;
inline constexpr int kTransposeRows = 8;  // of threads; a block has kTransposeTile of them side by side
cudaError_t LaunchTransposeCopy(const TransposeCopy& copy, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
