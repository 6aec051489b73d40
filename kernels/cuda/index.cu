#include "kernels/cuda/index.cuh"
#include "kernels/cuda/layout_index.cuh"
#include "kernels/cuda/portable.h"
#include "kernels/cuda/program_values.cuh"

namespace tensord::cuda {
namespace {

__global__ void __launch_bounds__(kIndexThreads) Check(const CheckIndices check) {
  // A word of the block's own first: a million bad indices shall not become a million writes to the host's memory.
  TENSORD_SHARED(unsigned long long, bad);
  if (threadIdx.x == 0) bad = 0;
  __syncthreads();
  const auto item = static_cast<uint32_t>(ItemSize(check.dtype));
  for (int64_t i = FirstIndex(); i < check.count; i += IndexStep()) {
    const uint64_t bits = LoadBits(check.indices, item, i);
    int64_t index;
    bool good;
    if (check.dtype == Dtype::kUint64) {
      index = static_cast<int64_t>(bits);
      good = bits < static_cast<uint64_t>(check.size);
    } else {
      index = FromBits<int64_t>(bits, check.dtype, Dtype::kInt64);
      good = index >= -check.size && index < check.size;
      index = index < 0 ? index + check.size : index;
    }
    check.places[i] = good ? index : 0;
    if (!good) atomicMax(&bad, ~static_cast<unsigned long long>(i));
  }
  __syncthreads();
  if (threadIdx.x == 0 && bad != 0) atomicMax(check.report, bad);
}

template <class U>
__global__ void __launch_bounds__(kIndexThreads) Take(const TakeUnits take) {
  const U* const from = static_cast<const U*>(take.from);
  U* const to = static_cast<U*>(take.to);
  const int64_t n = take.outer * take.count * take.inner;
  for (int64_t i = FirstIndex(); i < n; i += IndexStep()) {
    int64_t outer = i;
    const int64_t unit = TakeIndex(outer, take.inner);
    const int64_t place = __ldg(take.places + TakeIndex(outer, take.count));
    to[i] = from[outer * take.outer_stride + place * take.axis_stride + unit];
  }
}

}  // namespace

cudaError_t LaunchCheckIndices(const CheckIndices& check, unsigned blocks, cudaStream_t stream) {
  return TENSORD_LAUNCH(Check, blocks, kIndexThreads, 0, stream, check);
}

cudaError_t LaunchTake(const TakeUnits& take, unsigned blocks, cudaStream_t stream) {
  switch (take.item) {
    case 1:
      return TENSORD_LAUNCH_FLAT(Take<uint8_t>, blocks, kIndexThreads, stream, take);
    case 2:
      return TENSORD_LAUNCH_FLAT(Take<uint16_t>, blocks, kIndexThreads, stream, take);
    case 4:
      return TENSORD_LAUNCH_FLAT(Take<uint32_t>, blocks, kIndexThreads, stream, take);
    case 8:
      return TENSORD_LAUNCH_FLAT(Take<uint64_t>, blocks, kIndexThreads, stream, take);
    case 16:
      return TENSORD_LAUNCH_FLAT(Take<Unit16>, blocks, kIndexThreads, stream, take);
    default:
      return cudaErrorInvalidValue;
  }
}

}  // namespace tensord::cuda
