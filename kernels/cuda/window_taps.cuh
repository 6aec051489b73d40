// The taps of a window that read inside the input. Device code alone.
#pragma once

#include "kernels/cuda/reduce_element.cuh"
#include "kernels/cuda/window.cuh"

namespace tensord::cuda {

// Taps [first, last) of one output on one axis; tap t reads at `place` + t * dilation.
struct Taps {
  int64_t place;
  int64_t first;
  int64_t last;
  __device__ __forceinline__ int64_t count() const { return last > first ? last - first : 0; }
};

// ceil(a / d) for a > 0, and 0 for the others.
__device__ __forceinline__ int64_t CeilTaps(int64_t a, const Divisor& d) {
  int64_t rest = 0;
  return a > 0 ? DivMod(a - 1, d, &rest) + 1 : 0;
}

__device__ __forceinline__ Taps TapsOf(const InnerAxis& axis, int64_t output) {
  Taps taps;
  taps.place = output * axis.stride - axis.pad;
  taps.first = CeilTaps(-taps.place, axis.dilation);
  const int64_t inside = CeilTaps(axis.in - taps.place, axis.dilation);
  taps.last = inside < axis.window ? inside : axis.window;
  return taps;
}

}  // namespace tensord::cuda
