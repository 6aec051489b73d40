// Small kernels of the emulator's tests: right ones, and ones with a mistake each.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tensord::emulated {

// Right ones.
cudaError_t LaunchFill(float* data, float value, int64_t count, cudaStream_t stream);
// Adds 1 to every element `rounds` times over, reading and writing memory each time.
cudaError_t LaunchIncrement(float* data, int64_t count, cudaStream_t stream);
// indices[i] = the place in which element i's thread ran, counted by an atomic.
cudaError_t LaunchPlaces(unsigned* counter, unsigned* places, unsigned blocks, unsigned threads, cudaStream_t stream);
cudaError_t LaunchTranspose(const float* from, float* to, int rows, int columns, bool barrier, cudaStream_t stream);
// sum[0] += every element: a tree in dynamic shared memory, then an atomic.
cudaError_t LaunchSum(const float* data, float* sum, int64_t count, cudaStream_t stream);
// out[i] for each of 64 threads and one collective each; see the kernel.
cudaError_t LaunchCollectives(int* out, cudaStream_t stream);
// Each atomic once for each of 64 threads.
struct AtomicCells {
  int add, min, max, sub, bits_and, bits_or, bits_xor;
  unsigned cas;
  unsigned long long wide;
  float real;
  double twice;
};
cudaError_t LaunchAtomics(AtomicCells* cells, cudaStream_t stream);
// Every launch limit can be asked for.
cudaError_t LaunchEmpty(dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream);
const void* EmptyKernel();
// out = {blockIdx, blockDim, gridDim} of the last thread of a 3-d launch.
cudaError_t LaunchIndices(unsigned* out, dim3 grid, dim3 block, cudaStream_t stream);

// Wrong ones.
enum class Bug : int32_t {
  kNone,
  kWritePastEnd,  // data[count]
  kThread37WritesPastEnd,
  kReadNull,           // through a null pointer
  kSharedPastEnd,      // index 32 of 32
  kRaceInBlock,        // no barrier between writing and reading shared memory
  kRaceBetweenBlocks,  // data[0] += … by every block
  kDivergentBarrier,   // a barrier only half of the threads reach
  kTwoBarriers,        // two halves at two barriers
  kBarrierAfterEnd,    // half of the threads have returned
  kHalfWarpShuffle,    // full mask, half of the lanes
  kNotInMask,          // a lane calls with a mask that lacks it
  kMissingLanes,       // the mask names lanes a small block has not
  kSourceOutOfMask,    // reads a lane that takes no part
  kDifferentMasks,
  kEndlessRecursion,
  kDivideByZero,
  kBarrierInFlat,  // launched flat
  kShuffleInFlat,
  kSharedInFlat,
  kRaceInFlat,
  kTooMuchShared,
  kMisaligned,  // a double at an address that is 4 past a multiple of 8
};
cudaError_t LaunchBug(Bug bug, float* data, int64_t count, int zero, cudaStream_t stream);

}  // namespace tensord::emulated
