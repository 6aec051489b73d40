// Positions in row-major order, and the widest unit that is moved at once. Device code only.
#pragma once

#include "kernels/cuda/portable.h"

namespace tensord::cuda {

struct alignas(16) Unit16 {
  uint64_t low, high;
};

// Takes the index of `i` along dimension `d` off `i`: what is left counts the dimensions before.
__device__ __forceinline__ int64_t TakeIndex(int64_t& i, int64_t size) {
  int64_t index;
  if (((i | size) >> 32) == 0) {  // a division in 32 bits takes a fraction of the time
    const auto short_i = static_cast<uint32_t>(i);
    const uint32_t quotient = short_i / static_cast<uint32_t>(size);
    index = short_i - quotient * static_cast<uint32_t>(size);
    i = quotient;
  } else {
    const int64_t quotient = i / size;
    index = i - quotient * size;
    i = quotient;
  }
  return index;
}

}  // namespace tensord::cuda
