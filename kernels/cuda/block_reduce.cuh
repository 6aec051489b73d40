// How the threads of a group, a warp or a block bring their values together: always in the same order, so that a result
// has the same bits every time. Device code alone.
//
//   TENSORD_SHARED(float, parts, kMaxWarps);
//   const float sum = BlockAll(Add<float>{}, mine, parts);   // in every thread
//
// A reducer has: State; Merge(State, State), commutative; Exchange(State, distance), the State of the lane whose number
// differs in that bit.
#pragma once

#include "kernels/cuda/portable.h"

namespace tensord::cuda {

inline constexpr int kWarp = 32;
inline constexpr int kMaxWarps = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;

template <class A>
struct Add {
  using State = A;
  __device__ __forceinline__ A Merge(A a, A b) const { return a + b; }
  __device__ __forceinline__ A Exchange(A a, int distance) const { return __shfl_xor_sync(kAllLanes, a, distance); }
};

// The larger; NaN if either is.
template <class A>
struct Larger {
  using State = A;
  __device__ __forceinline__ A Merge(A a, A b) const { return b > a || b != b ? b : a; }
  __device__ __forceinline__ A Exchange(A a, int distance) const { return __shfl_xor_sync(kAllLanes, a, distance); }
};

// Every lane of a group of `lanes` neighbours (a power of two up to 32) gets what all of them have. All 32 lanes of the
// warp take part.
template <class R>
__device__ __forceinline__ typename R::State GroupAll(const R& r, typename R::State mine, int lanes) {
  for (int distance = lanes / 2; distance > 0; distance /= 2) mine = r.Merge(mine, r.Exchange(mine, distance));
  return mine;
}

// Every thread of the block gets what all have. The block has whole warps; `parts` is shared, one for each warp, and
// may be used again afterwards.
template <class R>
__device__ __forceinline__ typename R::State BlockAll(const R& r, typename R::State mine, typename R::State* parts) {
  mine = GroupAll(r, mine, kWarp);
  if (threadIdx.x % kWarp == 0) parts[threadIdx.x / kWarp] = mine;
  __syncthreads();
  mine = parts[0];
  for (unsigned warp = 1; warp < blockDim.x / kWarp; ++warp) mine = r.Merge(mine, parts[warp]);
  __syncthreads();
  return mine;
}

// The same for threads that stand in `blockDim.x / width` strands of `width` neighbours (a power of two): those at one
// place of their strands. `states` is shared, one for each thread.
template <class R>
__device__ __forceinline__ typename R::State StrandsAll(const R& r, typename R::State mine, typename R::State* states,
                                                        int width) {
  const int thread = static_cast<int>(threadIdx.x);
  states[thread] = mine;
  __syncthreads();
  for (int half = static_cast<int>(blockDim.x) / 2; half >= width; half /= 2) {
    if (thread < half) states[thread] = r.Merge(states[thread], states[thread + half]);
    __syncthreads();
  }
  mine = states[thread & (width - 1)];
  __syncthreads();
  return mine;
}

// A sum in short runs, which then join: rounding errors do not add up along the whole.
template <class A>
class RunningSum {
 public:
  __device__ __forceinline__ void Take(A value) {
    run_ += value;
    if (++count_ == kRun) {
      total_ += run_;
      run_ = 0;
      count_ = 0;
    }
  }
  __device__ __forceinline__ A Total() const { return total_ + run_; }

 private:
  static constexpr int kRun = 64;
  A run_ = 0;
  A total_ = 0;
  int count_ = 0;
};

}  // namespace tensord::cuda
