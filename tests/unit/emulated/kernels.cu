#include "kernels/cuda/portable.h"
#include "tests/unit/emulated/kernels.cuh"

namespace tensord::emulated {

using cuda::FirstIndex;
using cuda::IndexStep;

namespace {

constexpr unsigned kAll = 0xffffffffU;

unsigned Blocks(int64_t count, int threads) { return static_cast<unsigned>((count + threads - 1) / threads); }

}  // namespace

__global__ void Fill(float* data, float value, int64_t count) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) data[i] = value;
}
cudaError_t LaunchFill(float* data, float value, int64_t count, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(Fill, Blocks(count, 256), 256, stream, data, value, count);
}

__global__ void Increment(float* data, int64_t count) {
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) data[i] += 1;
}
cudaError_t LaunchIncrement(float* data, int64_t count, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(Increment, Blocks(count, 128), 128, stream, data, count);
}

__global__ void Places(unsigned* counter, unsigned* places) { places[FirstIndex()] = atomicAdd(counter, 1U); }
cudaError_t LaunchPlaces(unsigned* counter, unsigned* places, unsigned blocks, unsigned threads, cudaStream_t stream) {
  return TENSORD_LAUNCH(Places, blocks, threads, 0, stream, counter, places);
}

template <bool kBarrier>
__global__ void Transpose(const float* from, float* to, int rows, int columns) {
  TENSORD_SHARED(float, tile, 16, 17);
  int column = static_cast<int>(blockIdx.x * 16 + threadIdx.x);
  int row = static_cast<int>(blockIdx.y * 16 + threadIdx.y);
  if (column < columns && row < rows)
    tile[threadIdx.y][threadIdx.x] = from[static_cast<int64_t>(row) * columns + column];
  if constexpr (kBarrier) __syncthreads();
  column = static_cast<int>(blockIdx.y * 16 + threadIdx.x);
  row = static_cast<int>(blockIdx.x * 16 + threadIdx.y);
  if (column < rows && row < columns) to[static_cast<int64_t>(row) * rows + column] = tile[threadIdx.x][threadIdx.y];
}
cudaError_t LaunchTranspose(const float* from, float* to, int rows, int columns, bool barrier, cudaStream_t stream) {
  const dim3 grid(Blocks(columns, 16), Blocks(rows, 16));
  const dim3 block(16, 16);
  return barrier ? TENSORD_LAUNCH(Transpose<true>, grid, block, 0, stream, from, to, rows, columns)
                 : TENSORD_LAUNCH(Transpose<false>, grid, block, 0, stream, from, to, rows, columns);
}

__global__ void Sum(const float* data, float* sum, int64_t count) {
  TENSORD_DYNAMIC_SHARED(float, part);
  float mine = 0;
  for (int64_t i = FirstIndex(); i < count; i += IndexStep()) mine += __ldg(data + i);
  part[threadIdx.x] = mine;
  __syncthreads();
  for (unsigned half = blockDim.x / 2; half > 0; half /= 2) {
    if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(sum, part[0]);
}
cudaError_t LaunchSum(const float* data, float* sum, int64_t count, cudaStream_t stream) {
  return TENSORD_LAUNCH(Sum, 4, 128, 128 * sizeof(float), stream, data, sum, count);
}

// Rows of 64: what each collective gave to each thread.
__global__ void Collectives(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % warpSize;
  int row = 0;
  const auto put = [&](int value) { out[64 * row++ + thread] = value; };
  put(__shfl_sync(kAll, thread, 5));
  put(__shfl_sync(kAll, thread, 3, 8));
  put(__shfl_xor_sync(kAll, thread, 3));
  put(__shfl_up_sync(kAll, thread, 2));
  put(__shfl_down_sync(kAll, thread, 2));
  put(__shfl_down_sync(kAll, thread, 2, 4));
  put(static_cast<int>(__ballot_sync(kAll, lane % 3 == 0)));
  put(__any_sync(kAll, thread == 40));
  put(__all_sync(kAll, thread < 32));
  const unsigned half = lane < 16 ? 0x0000ffffU : 0xffff0000U;
  put(__shfl_xor_sync(half, thread, 1));
  put(static_cast<int>(__shfl_sync(kAll, 1.5 * thread, 31)));
  TENSORD_SHARED(int, box, 64);
  box[thread] = thread;
  __syncwarp();
  put(box[thread ^ 1]);
  __syncthreads();
  put(box[63 - thread]);
}
cudaError_t LaunchCollectives(int* out, cudaStream_t stream) {
  return TENSORD_LAUNCH(Collectives, 1, 64, 0, stream, out);
}

__global__ void Atomics(AtomicCells* cells) {
  const int thread = static_cast<int>(threadIdx.x);
  atomicAdd(&cells->add, thread);
  atomicMin(&cells->min, 100 - thread);
  atomicMax(&cells->max, thread);
  atomicSub(&cells->sub, 2);
  atomicAnd(&cells->bits_and, ~(thread == 7 ? 4 : 0));
  atomicOr(&cells->bits_or, 1 << (thread % 8));
  atomicXor(&cells->bits_xor, thread);
  unsigned seen = atomicAdd(&cells->cas, 0U);
  for (;;) {
    const unsigned before = atomicCAS(&cells->cas, seen, seen + 3);
    if (before == seen) break;
    seen = before;
  }
  atomicAdd(&cells->wide, 1ULL << 33);
  atomicAdd(&cells->real, 0.5F);
  atomicAdd(&cells->twice, 0.25);
}
cudaError_t LaunchAtomics(AtomicCells* cells, cudaStream_t stream) {
  return TENSORD_LAUNCH(Atomics, 2, 32, 0, stream, cells);
}

__global__ void Empty() {}
cudaError_t LaunchEmpty(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream) {
  return TENSORD_LAUNCH(Empty, grid, block, shared_bytes, stream);
}
const void* EmptyKernel() { return reinterpret_cast<const void*>(&Empty); }

__global__ void Indices(unsigned* out) {
  if (blockIdx.x != gridDim.x - 1 || blockIdx.y != gridDim.y - 1 || blockIdx.z != gridDim.z - 1) return;
  if (threadIdx.x != blockDim.x - 1 || threadIdx.y != blockDim.y - 1 || threadIdx.z != blockDim.z - 1) return;
  const unsigned values[] = {threadIdx.x, threadIdx.y, threadIdx.z, blockIdx.x, blockIdx.y, blockIdx.z,
                             blockDim.x,  blockDim.y,  blockDim.z,  gridDim.x,  gridDim.y,  gridDim.z};
  for (int i = 0; i < 12; ++i) out[i] = values[i];
}
cudaError_t LaunchIndices(unsigned* out, dim3 grid, dim3 block, cudaStream_t stream) {
  return TENSORD_LAUNCH_FLAT(Indices, grid, block, stream, out);
}

// ---- Mistakes ----

__device__ int Deeper(volatile int* depth) {
  volatile int filler[256];
  if (*depth < 0) return 0;  // never
  filler[*depth & 255] = *depth;
  *depth = *depth + 1;
  return Deeper(depth) + filler[*depth & 255];
}

__global__ void Wrong(Bug bug, float* data, int64_t count, int zero) {
  TENSORD_SHARED(float, box, 32);
  const int thread = static_cast<int>(threadIdx.x);
  volatile int index = thread;
  switch (bug) {
    case Bug::kWritePastEnd:
      if (FirstIndex() == 0) data[count] = 1;
      break;
    case Bug::kThread37WritesPastEnd:
      if (FirstIndex() == 37) data[count] = 1;
      break;
    case Bug::kReadNull:
      if (thread == 0) data[0] = *reinterpret_cast<volatile float*>(static_cast<intptr_t>(zero));
      break;
    case Bug::kSharedPastEnd:
      if (thread == 0) {
        float* cell = box;
        cell[32 + index] = 1;
      }
      break;
    case Bug::kRaceInBlock:
      if (thread < 32) box[thread] = 1;
      data[thread] = box[31 - thread % 32];
      break;
    case Bug::kRaceBetweenBlocks:
      if (thread == 0) data[0] += 1;
      break;
    case Bug::kDivergentBarrier:
      if (thread < 32) __syncthreads();
      break;
    case Bug::kTwoBarriers:
      if (thread < 32) {
        __syncthreads();
      } else {
        __syncthreads();
      }
      break;
    case Bug::kBarrierAfterEnd:
      if (thread >= 32) return;
      __syncthreads();
      break;
    case Bug::kHalfWarpShuffle:
      if (thread % 32 >= 16) data[thread] = __shfl_xor_sync(kAll, 1.0F, 1);
      __syncthreads();
      break;
    case Bug::kNotInMask:
      data[thread] = __shfl_sync(0x7fffffffU, 1.0F, 0);
      break;
    case Bug::kMissingLanes:
      data[thread] = __shfl_sync(kAll, 1.0F, 0);
      break;
    case Bug::kSourceOutOfMask:
      if (thread % 32 < 16) data[thread] = __shfl_sync(0x0000ffffU, 1.0F, 20);
      break;
    case Bug::kDifferentMasks:
      if (thread % 32 < 3) data[thread] = __shfl_sync(thread % 32 == 0 ? 3U : 7U, 1.0F, 1);
      break;
    case Bug::kEndlessRecursion:
      data[0] = static_cast<float>(Deeper(&const_cast<volatile int&>(index)));
      break;
    case Bug::kDivideByZero:
      data[thread] = static_cast<float>(thread / zero);
      break;
    case Bug::kMisaligned:
      if (thread == 0) *reinterpret_cast<double*>(data + 1) = 1;
      break;
    default:
      break;
  }
}

__global__ void WrongFlat(Bug bug, float* data) {
  if (bug == Bug::kBarrierInFlat) __syncthreads();
  if (bug == Bug::kShuffleInFlat) data[0] = __shfl_sync(kAll, 1.0F, 0);
  if (bug == Bug::kSharedInFlat) {
    TENSORD_SHARED(float, box, 4);
    data[0] = box[0];
  }
  if (bug == Bug::kRaceInFlat) data[threadIdx.x / 2] = 1;
}

__global__ void TooMuch(float* data) {
  TENSORD_SHARED(float, first, 8192);
  TENSORD_SHARED(float, second, 8192);
  data[0] = first[0] + second[0];
}

cudaError_t LaunchBug(Bug bug, float* data, int64_t count, int zero, cudaStream_t stream) {
  switch (bug) {
    case Bug::kBarrierInFlat:
    case Bug::kShuffleInFlat:
    case Bug::kSharedInFlat:
    case Bug::kRaceInFlat:
      return TENSORD_LAUNCH_FLAT(WrongFlat, 1, 64, stream, bug, data);
    case Bug::kTooMuchShared:
      return TENSORD_LAUNCH(TooMuch, 1, 32, 0, stream, data);
    case Bug::kMissingLanes:
      return TENSORD_LAUNCH(Wrong, 1, 48, 0, stream, bug, data, count, zero);
    case Bug::kRaceBetweenBlocks:
      return TENSORD_LAUNCH(Wrong, 8, 32, 0, stream, bug, data, count, zero);
    default:
      return TENSORD_LAUNCH(Wrong, 1, 64, 0, stream, bug, data, count, zero);
  }
}

}  // namespace tensord::emulated
