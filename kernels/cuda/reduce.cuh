// What the host and the kernels of Reduce share.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/reduce_divisor.cuh"

namespace tensord::cuda {

// How elements become one. Min is Max of flipped values (see flip_in).
enum class ReduceKind : uint8_t { kSum = 0, kProd, kMax, kArgMax };
// What they are combined in.
enum class ReduceLane : uint8_t { kFloat = 0, kDouble, kInt64 };
// How the work is laid out.
enum class ReduceForm : uint8_t {
  kGroups = 0,  // `width` lanes of a warp to an output
  kBlocks,      // a block to a chunk of an output
  kColumns,     // a block to `width` neighbouring outputs, its threads going down in strands
};

inline constexpr int kReduceThreads = 256;
inline constexpr int kMaxReduceDims = 64;

// Strides in elements.
struct ReduceDim {
  Divisor size;
  int64_t stride = 0;
  int64_t out_stride = 0;  // kept dimensions: in the contiguous result
};

struct ReduceParams {
  const void* in = nullptr;
  const int64_t* positions = nullptr;  // arg: of the elements, where `in` is partial results
  const void* shift = nullptr;         // sums: one lane an output, taken from its elements first; or null
  void* out = nullptr;                 // `partial`: lanes, chunk by chunk
  int64_t* out_positions = nullptr;    // arg, `partial`
  // Exclusive-or on a lane's bits that makes the order wanted the order of signed numbers, and back.
  uint64_t flip_in = 0;
  uint64_t flip_out = 0;
  double divisor = 1;  // where `divide`
  int64_t outputs = 1;
  int64_t count = 1;  // elements behind an output
  int64_t chunk = 1;  // of them in one task
  Divisor chunks;
  int64_t tasks = 1;    // blocks' worth of work; kBlocks and kColumns
  int32_t kept = 0;     // dims[0, kept) are kept, outermost first
  int32_t reduced = 0;  // dims[kept, kept + reduced) are reduced
  int32_t along = 0;    // kColumns: the kept dimension that neighbours lie on
  int32_t width = 1;    // a power of two
  Divisor across;       // kColumns: tiles of `width` neighbours
  Dtype in_dtype = Dtype::kNone;
  Dtype out_dtype = Dtype::kNone;
  bool nonzero = false;  // elements count as 1 where they are not 0; kMax, kInt64
  bool square = false;   // sums: elements are squared, after the shift
  bool divide = false;
  bool root = false;
  bool last = false;  // arg: the last of equals
  bool partial = false;
  ReduceDim dims[kMaxReduceDims];
};
static_assert(sizeof(ReduceParams) <= 4096);

// Errors: of the launch.
cudaError_t LaunchReduce(ReduceKind kind, ReduceLane lane, ReduceForm form, const ReduceParams& params, unsigned blocks,
                         cudaStream_t stream);
cudaError_t LaunchArgReduce(ReduceLane lane, ReduceForm form, const ReduceParams& params, unsigned blocks,
                            cudaStream_t stream);

}  // namespace tensord::cuda
