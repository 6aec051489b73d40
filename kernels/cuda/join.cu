#include "kernels/cuda/join.cuh"
#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/portable.h"

namespace tensord::cuda {
namespace {

template <class U>
__global__ void __launch_bounds__(kJoinThreads) CopyRows(const JoinRows join) {
  const JoinRows::Part& part = join.parts[blockIdx.y];
  const U* const from = static_cast<const U*>(part.from);
  U* const to = static_cast<U*>(join.to) + part.start;
  for (int64_t i = FirstIndex(); i < join.rows * part.length; i += IndexStep()) {
    int64_t row = i;
    const int64_t column = TakeIndex(row, part.length);
    to[row * join.pitch + column] = from[i];
  }
}

}  // namespace

cudaError_t LaunchJoin(const JoinRows& join, unsigned blocks, cudaStream_t stream) {
  const dim3 grid(blocks, static_cast<unsigned>(join.count));
  switch (join.item) {
    case 1:
      return TENSORD_LAUNCH_FLAT(CopyRows<uint8_t>, grid, kJoinThreads, stream, join);
    case 2:
      return TENSORD_LAUNCH_FLAT(CopyRows<uint16_t>, grid, kJoinThreads, stream, join);
    case 4:
      return TENSORD_LAUNCH_FLAT(CopyRows<uint32_t>, grid, kJoinThreads, stream, join);
    case 8:
      return TENSORD_LAUNCH_FLAT(CopyRows<uint64_t>, grid, kJoinThreads, stream, join);
    case 16:
      return TENSORD_LAUNCH_FLAT(CopyRows<Unit16>, grid, kJoinThreads, stream, join);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace tensord::cuda
