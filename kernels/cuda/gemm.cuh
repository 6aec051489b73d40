// What the host and the portable product kernel share: any strides, any batch, integers too.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/reduce_divisor.cuh"

namespace tensord::cuda {

// What products are computed in; integers wrap.
enum class GemmLane : uint8_t { kFloat = 0, kDouble, kUint32, kUint64 };

inline constexpr int kGemmThreads = 256;
inline constexpr int kGemmSmallTile = 16;  // rows and columns of the result to a block
inline constexpr int kGemmLargeTile = 64;
inline constexpr int kMaxGemmBatch = 62;

// Strides in elements.
struct GemmBatch {
  Divisor size;
  int64_t a_stride = 0;
  int64_t b_stride = 0;
};

struct GemmOperand {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  Dtype dtype = Dtype::kNone;
};

// out[batch] (m x n, contiguous) = a[batch] (m x k) · b[batch] (k x n) + bias (n elements, or null). Nothing is empty.
struct GemmParams {
  GemmOperand a;
  GemmOperand b;
  const void* bias = nullptr;
  void* out = nullptr;  // where `splits` is more than 1: lanes, split by split
  int64_t m = 1;
  int64_t k = 1;
  int64_t count = 1;  // matrices
  Divisor n;
  Divisor elements;  // of all results; divides places of partial sums
  Divisor splits;    // k is cut into so many runs
  int64_t run = 1;   // of k
  Divisor row_tiles;
  Divisor column_tiles;
  Dtype bias_dtype = Dtype::kNone;
  Dtype out_dtype = Dtype::kNone;
  int32_t rank = 0;  // of the batch
  GemmBatch batch[kMaxGemmBatch];
};
static_assert(sizeof(GemmParams) <= 4096);

// tile: kGemmSmallTile or kGemmLargeTile.
cudaError_t LaunchGemm(GemmLane lane, int tile, const GemmParams& params, unsigned blocks, cudaStream_t stream);
// out = the sum of the splits, in their order, plus bias. `params` as for the product, but for `out`.
cudaError_t LaunchGemmSum(GemmLane lane, const GemmParams& params, const void* partials, unsigned blocks,
                          cudaStream_t stream);

}  // namespace tensord::cuda
