// Kernels that make tensors from nothing.
//
// Standard library only; shared with device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace tensord::cuda {

inline constexpr int kCreateThreads = 256;

// A pattern of 16 bytes all over memory: `head` bytes, the pattern's last, up to the first address that is a multiple
// of 16; `chunks` whole patterns; `tail` bytes.
struct FillPattern {
  void* data;
  int64_t chunks;
  int32_t head, tail;
  uint64_t low, high;  // the pattern, little endian
};
cudaError_t LaunchFill(const FillPattern& fill, unsigned blocks, cudaStream_t stream);

// Element i: from + i·by, modulo 2^64; converted to the dtype.
struct IntegerSequence {
  void* data;
  int64_t elements;
  uint64_t from, by;
  Dtype dtype;
};
cudaError_t LaunchSequence(const IntegerSequence& sequence, unsigned blocks, cudaStream_t stream);

// Element i: from + i·by before `turn`, to - (elements - 1 - i)·by from there on; in float64, converted to the dtype.
struct RealSequence {
  void* data;
  int64_t elements;
  int64_t turn;
  double from, to, by;
  Dtype dtype;
};
cudaError_t LaunchSequence(const RealSequence& sequence, unsigned blocks, cudaStream_t stream);

// `value` at `count` places of each of `matrices`, `step` elements apart from `first` on.
struct DiagonalFill {
  void* data;
  int64_t matrices, matrix_elements;
  int64_t first, step, count;
  uint64_t value;  // the bits of an element
  uint32_t item;   // its bytes
};
cudaError_t LaunchDiagonal(const DiagonalFill& fill, unsigned blocks, cudaStream_t stream);

// Draws of rand and randn, as kernels/ops/philox.h says.
struct RandomFill {
  void* data;
  int64_t elements;
  int64_t philox_blocks;  // that hold the elements' counters
  uint64_t seed;
  uint64_t first_block;  // of the first element's counter
  int32_t skip;          // draws of that block which come before it
  Dtype dtype;           // float16, bfloat16, float32, float64
  bool normal;
  bool aligned;  // a block's elements can be written at once
};
cudaError_t LaunchRandom(const RandomFill& fill, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
