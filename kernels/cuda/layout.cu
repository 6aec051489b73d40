// Strided and transposing copies, one instance a size of element.
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/portable.h"

namespace tensord::cuda {
namespace {

template <class U>
__global__ void __launch_bounds__(kCopyThreads) CopyElements(const StridedCopy copy) {
  const U* const from = static_cast<const U*>(copy.from);
  U* const to = static_cast<U*>(copy.to);
  for (int64_t i = FirstIndex(); i < copy.elements; i += IndexStep()) {
    int64_t rest = i;
    int64_t source = 0;
    int64_t target = 0;
    for (int d = copy.rank - 1; d > 0; --d) {
      const int64_t index = TakeIndex(rest, copy.sizes[d]);
      source += index * copy.from_strides[d];
      target += index * copy.to_strides[d];
    }
    to[target + rest * copy.to_strides[0]] = from[source + rest * copy.from_strides[0]];
  }
}

// Rows are read along memory into a tile, and columns of it written along memory. One column more than needed keeps the
// threads of a warp in different banks.
template <class U>
__global__ void __launch_bounds__(kTransposeTile* kTransposeRows) TransposeTiles(const TransposeCopy copy) {
  TENSORD_SHARED(U, tile, kTransposeTile, kTransposeTile + 1);
  for (int64_t t = blockIdx.x; t < copy.tiles; t += gridDim.x) {
    int64_t rest = t;
    const int64_t column_tile = TakeIndex(rest, copy.column_tiles);
    const int64_t row_tile = TakeIndex(rest, copy.row_tiles);
    const U* from = static_cast<const U*>(copy.from);
    U* to = static_cast<U*>(copy.to);
    for (int d = copy.rank - 1; d >= 0; --d) {
      const int64_t index = TakeIndex(rest, copy.sizes[d]);
      from += index * copy.from_strides[d];
      to += index * copy.to_strides[d];
    }
    const int64_t first_row = row_tile * kTransposeTile;
    const int64_t first_column = column_tile * kTransposeTile;
    const int64_t row = first_row + threadIdx.x;
    for (int64_t j = threadIdx.y; j < kTransposeTile; j += kTransposeRows) {
      const int64_t column = first_column + j;
      if (row < copy.rows && column < copy.columns) tile[j][threadIdx.x] = from[row + column * copy.from_column_stride];
    }
    __syncthreads();
    const int64_t column = first_column + threadIdx.x;
    for (int64_t j = threadIdx.y; j < kTransposeTile; j += kTransposeRows) {
      const int64_t target = first_row + j;
      if (target < copy.rows && column < copy.columns) to[target * copy.to_row_stride + column] = tile[threadIdx.x][j];
    }
    __syncthreads();  // before the next tile overwrites this one
  }
}

}  // namespace

cudaError_t LaunchStridedCopy(const StridedCopy& copy, unsigned blocks, cudaStream_t stream) {
  switch (copy.item) {
    case 1:
      return TENSORD_LAUNCH_FLAT(CopyElements<uint8_t>, blocks, kCopyThreads, stream, copy);
    case 2:
      return TENSORD_LAUNCH_FLAT(CopyElements<uint16_t>, blocks, kCopyThreads, stream, copy);
    case 4:
      return TENSORD_LAUNCH_FLAT(CopyElements<uint32_t>, blocks, kCopyThreads, stream, copy);
    case 8:
      return TENSORD_LAUNCH_FLAT(CopyElements<uint64_t>, blocks, kCopyThreads, stream, copy);
    case 16:
      return TENSORD_LAUNCH_FLAT(CopyElements<Unit16>, blocks, kCopyThreads, stream, copy);
    default:
      return cudaErrorInvalidValue;
  }
}

cudaError_t LaunchTransposeCopy(const TransposeCopy& copy, unsigned blocks, cudaStream_t stream) {
  const dim3 block(kTransposeTile, kTransposeRows);
  switch (copy.item) {
    case 1:
      return TENSORD_LAUNCH(TransposeTiles<uint8_t>, blocks, block, 0, stream, copy);
    case 2:
      return TENSORD_LAUNCH(TransposeTiles<uint16_t>, blocks, block, 0, stream, copy);
    case 4:
      return TENSORD_LAUNCH(TransposeTiles<uint32_t>, blocks, block, 0, stream, copy);
    case 8:
      return TENSORD_LAUNCH(TransposeTiles<uint64_t>, blocks, block, 0, stream, copy);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace tensord::cuda
