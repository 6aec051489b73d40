// A tile of a matrix product in the registers of a block, for any way of reaching the operands. Device code alone.
//
// 256 threads stand as 16 x 16; each has kPer x kPer sums: rows y + 16 i, columns x + 16 j of a tile.
#pragma once

#include "kernels/cuda/portable.h"
#include "kernels/cuda/reduce_element.cuh"

namespace tensord::cuda {

inline constexpr int kGemmSide = 16;
inline constexpr int kGemmDepth = 16;  // of k at a time

// A product and its sum are one instruction where there is one: unlike elementwise code, products need not agree with
// other devices to the bit.
template <class A>
__device__ __forceinline__ A MultiplyAdd(A x, A y, A sum) {
#if defined(__CUDACC__)
  if constexpr (std::is_same_v<A, float>) {
    return fmaf(x, y, sum);
  } else if constexpr (std::is_same_v<A, double>) {
    return fma(x, y, sum);
  }
#endif
  return static_cast<A>(sum + x * y);
}

template <class A, int kPer>
struct GemmShared {
  // One more column than the tile has: threads that write one column meet different banks.
  A a[kGemmDepth][kGemmSide * kPer + 1];
  A b[kGemmDepth][kGemmSide * kPer + 1];
};

// Adds the product over [begin, end) of k. load_a(p) and load_b(p) fill the columns, or rows, p to p + kGemmDepth of
// `shared`, with zeros from `end` on. All threads of the block call.
template <class A, int kPer, class LoadA, class LoadB>
__device__ __forceinline__ void MultiplyTile(A (&sums)[kPer][kPer], GemmShared<A, kPer>& shared, int64_t begin,
                                             int64_t end, LoadA&& load_a, LoadB&& load_b) {
  const int x = static_cast<int>(threadIdx.x) % kGemmSide;
  const int y = static_cast<int>(threadIdx.x) / kGemmSide;
  for (int64_t p = begin; p < end; p += kGemmDepth) {
    load_a(p);
    load_b(p);
    __syncthreads();
    TENSORD_UNROLL
    for (int d = 0; d < kGemmDepth; ++d) {
      A a[kPer];
      A b[kPer];
      TENSORD_UNROLL
      for (int i = 0; i < kPer; ++i) {
        a[i] = shared.a[d][y + i * kGemmSide];
        b[i] = shared.b[d][x + i * kGemmSide];
      }
      TENSORD_UNROLL
      for (int i = 0; i < kPer; ++i) {
        TENSORD_UNROLL
        for (int j = 0; j < kPer; ++j) sums[i][j] = MultiplyAdd(a[i], b[j], sums[i][j]);
      }
    }
    __syncthreads();
  }
}

}  // namespace tensord::cuda
