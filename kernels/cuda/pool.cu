// max_pool and avg_pool.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/window_taps.cuh"

namespace tensord::cuda {
namespace {

// Places of a window that count, on one axis, where padding counts.
__device__ __forceinline__ int64_t Counted(const PoolParams& p, int axis, int64_t place) {
  const int64_t end = p.inner[axis].in + p.pad_end[axis];
  const int64_t last = place + p.inner[axis].window;
  return (last < end ? last : end) - place;
}

// `width` lanes to an output; they share the taps of the last axis.
template <class T, bool kAverage>
__global__ void __launch_bounds__(kWindowThreads) Pool(const PoolParams p) {
  using C = ComputeOf<T>;
  const int lane = static_cast<int>(threadIdx.x) & (p.width - 1);
  const int groups = kWindowThreads / p.width;
  const int group = static_cast<int>(threadIdx.x) / p.width;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * groups; base < p.outputs; base += step) {
    const bool active = base + group < p.outputs;
    const int64_t index = active ? base + group : base;
    int64_t output[kInnerAxes];
    int64_t plane = DivMod(index, p.inner[2].out, &output[2]);
    plane = DivMod(plane, p.inner[1].out, &output[1]);
    plane = DivMod(plane, p.inner[0].out, &output[0]);
    const Taps t0 = TapsOf(p.inner[0], output[0]);
    const Taps t1 = TapsOf(p.inner[1], output[1]);
    const Taps t2 = TapsOf(p.inner[2], output[2]);
    const T* x = static_cast<const T*>(p.x) + plane * p.inner[0].in * p.inner[1].in * p.inner[2].in;
    // Sums of rows join to sums of slices, and these to the whole: rounding errors do not add up along all of it.
    const C nothing = kAverage ? C(0) : -static_cast<C>(__builtin_huge_val());
    C total = nothing;
    for (int64_t a = t0.first; a < t0.last; ++a) {
      const int64_t slice_place = (t0.place + a * p.inner[0].dilation.by) * p.inner[1].in;
      C slice = nothing;
      for (int64_t b = t1.first; b < t1.last; ++b) {
        const T* row = x + (slice_place + t1.place + b * p.inner[1].dilation.by) * p.inner[2].in;
        C part = nothing;
        for (int64_t c = t2.first + lane; c < t2.last; c += p.width) {
          const C value = Widen(row[t2.place + c * p.inner[2].dilation.by]);
          part = kAverage ? part + value : Larger<C>{}.Merge(part, value);
        }
        slice = kAverage ? slice + part : Larger<C>{}.Merge(slice, part);
      }
      total = kAverage ? total + slice : Larger<C>{}.Merge(total, slice);
    }
    if constexpr (kAverage) {
      total = GroupAll(Add<C>{}, total, p.width);
      const int64_t count = p.count_pads ? Counted(p, 0, t0.place) * Counted(p, 1, t1.place) * Counted(p, 2, t2.place)
                                         : t0.count() * t1.count() * t2.count();
      total /= static_cast<C>(count);
    } else {
      total = GroupAll(Larger<C>{}, total, p.width);
    }
    if (active && lane == 0) static_cast<T*>(p.out)[index] = Narrow<T>(total);
  }
}

template <class T, bool kAverage>
cudaError_t Launch(const PoolParams& params, unsigned blocks, cudaStream_t stream) {
  // A lane of its own exchanges nothing.
  if (params.width == 1) return TENSORD_LAUNCH_FLAT((Pool<T, kAverage>), blocks, kWindowThreads, stream, params);
  return TENSORD_LAUNCH((Pool<T, kAverage>), blocks, kWindowThreads, 0, stream, params);
}

}  // namespace

cudaError_t LaunchPool(Dtype dtype, const PoolParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype, [&]<class T>() {
    return params.average ? Launch<T, true>(params, blocks, stream) : Launch<T, false>(params, blocks, stream);
  });
}

}  // namespace tensord::cuda
