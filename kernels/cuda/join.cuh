// Several contiguous tensors side by side in every row of one, in a launch.
//
// Standard library only; shared with device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tensord::cuda {

inline constexpr int kJoinParts = 64;  // of a launch
inline constexpr int kJoinThreads = 256;

// Row r of the result holds row r of every part: `length` units at `start`.
struct JoinRows {
  struct Part {
    const void* from;  // rows · length units
    int64_t start;
    int64_t length;
  };
  void* to;
  int64_t rows;
  int64_t pitch;  // units from one row of the result to the next
  Part parts[kJoinParts];
  int32_t count;
  int32_t item;  // bytes of a unit: 1, 2, 4, 8 or 16
};
static_assert(sizeof(JoinRows) <= 4096, "a kernel's parameters");

// `blocks` blocks for each part.
cudaError_t LaunchJoin(const JoinRows& join, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
