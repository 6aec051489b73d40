// Softmax and its logarithm: exp(x - max) over its sum. NaN, or nothing but -inf, or +inf in a row make all of it NaN.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/reduce_element.cuh"
#include "kernels/cuda/softmax.cuh"

namespace tensord::cuda {
namespace {

template <class C>
__device__ __forceinline__ C NegativeInfinity() {
  return -static_cast<C>(__builtin_huge_val());
}

// A row's result for x, where `sum` is its logarithm if that is wanted.
template <class C>
__device__ __forceinline__ C Result(C shifted, C sum, bool log) {
  return log ? shifted - sum : math::Exp(shifted) / sum;
}

// `width` lanes to a row, which they keep in registers.
template <class T>
__global__ void __launch_bounds__(kSoftmaxThreads) SoftmaxGroups(const SoftmaxParams p) {
  using C = ComputeOf<T>;
  constexpr int kHeld = kSoftmaxGroupRow / kWarp;
  const int lane = static_cast<int>(threadIdx.x) & (p.width - 1);
  const int groups = kSoftmaxThreads / p.width;
  const int group = static_cast<int>(threadIdx.x) / p.width;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * groups; base < p.outer; base += step) {
    const bool active = base + group < p.outer;
    const int64_t row = (active ? base + group : base) * p.n;
    const T* x = static_cast<const T*>(p.x) + row;
    C held[kHeld];
    C max = NegativeInfinity<C>();
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const int at = lane + i * p.width;
      held[i] = at < p.n ? Widen(x[at]) : NegativeInfinity<C>();
      max = Larger<C>{}.Merge(max, held[i]);
    }
    max = GroupAll(Larger<C>{}, max, p.width);
    C sum = 0;
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      held[i] -= max;
      if (lane + i * p.width < p.n) sum += math::Exp(held[i]);
    }
    sum = GroupAll(Add<C>{}, sum, p.width);
    if (p.log) sum = math::Log(sum);
    T* out = static_cast<T*>(p.out) + row;
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const int at = lane + i * p.width;
      if (active && at < p.n) out[at] = Narrow<T>(Result(held[i], sum, p.log));
    }
  }
}

// A block to a row; in shared memory where it fits, else read again.
template <class T>
__global__ void __launch_bounds__(kSoftmaxThreads) SoftmaxRows(const SoftmaxParams p) {
  using C = ComputeOf<T>;
  TENSORD_DYNAMIC_SHARED(C, kept);
  TENSORD_SHARED(C, parts, kSoftmaxThreads / kWarp);
  for (int64_t row = blockIdx.x; row < p.outer; row += gridDim.x) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    T* out = static_cast<T*>(p.out) + row * p.n;
    // A thread reads back only what it has kept itself.
    C max = NegativeInfinity<C>();
    for (int64_t i = threadIdx.x; i < p.n; i += kSoftmaxThreads) {
      const C value = Widen(x[i]);
      if (p.kept) kept[i] = value;
      max = Larger<C>{}.Merge(max, value);
    }
    max = BlockAll(Larger<C>{}, max, parts);
    RunningSum<C> running;
    for (int64_t i = threadIdx.x; i < p.n; i += kSoftmaxThreads) {
      running.Take(math::Exp((p.kept ? kept[i] : Widen(x[i])) - max));
    }
    C sum = BlockAll(Add<C>{}, running.Total(), parts);
    if (p.log) sum = math::Log(sum);
    for (int64_t i = threadIdx.x; i < p.n; i += kSoftmaxThreads) {
      out[i] = Narrow<T>(Result((p.kept ? kept[i] : Widen(x[i])) - max, sum, p.log));
    }
  }
}

// A block to `width` neighbouring columns, its threads going down in strands.
template <class T>
__global__ void __launch_bounds__(kSoftmaxThreads) SoftmaxColumns(const SoftmaxParams p) {
  using C = ComputeOf<T>;
  TENSORD_SHARED(C, parts, kSoftmaxThreads);
  const int lane = static_cast<int>(threadIdx.x) & (p.width - 1);
  const int strand = static_cast<int>(threadIdx.x) / p.width;
  const int strands = kSoftmaxThreads / p.width;
  for (int64_t task = blockIdx.x; task < p.outer * p.across.by; task += gridDim.x) {
    int64_t tile = 0;
    const int64_t outer = DivMod(task, p.across, &tile);
    const int64_t column = tile * p.width + lane;
    const int64_t rows = column < p.inner ? p.n : 0;
    const int64_t offset = outer * p.n * p.inner + (column < p.inner ? column : 0);
    const T* x = static_cast<const T*>(p.x) + offset;
    T* out = static_cast<T*>(p.out) + offset;
    C max = NegativeInfinity<C>();
    for (int64_t i = strand; i < rows; i += strands) max = Larger<C>{}.Merge(max, Widen(x[i * p.inner]));
    max = StrandsAll(Larger<C>{}, max, parts, p.width);
    RunningSum<C> running;
    for (int64_t i = strand; i < rows; i += strands) running.Take(math::Exp(Widen(x[i * p.inner]) - max));
    C sum = StrandsAll(Add<C>{}, running.Total(), parts, p.width);
    if (p.log) sum = math::Log(sum);
    for (int64_t i = strand; i < rows; i += strands) {
      out[i * p.inner] = Narrow<T>(Result(Widen(x[i * p.inner]) - max, sum, p.log));
    }
  }
}

}  // namespace

cudaError_t LaunchSoftmaxGroups(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype, [&]<class T>() {
    if (params.width == 1) return TENSORD_LAUNCH_FLAT(SoftmaxGroups<T>, blocks, kSoftmaxThreads, stream, params);
    return TENSORD_LAUNCH(SoftmaxGroups<T>, blocks, kSoftmaxThreads, 0, stream, params);
  });
}

cudaError_t LaunchSoftmaxRows(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype, [&]<class T>() {
    const size_t bytes = params.kept ? static_cast<size_t>(params.n) * sizeof(ComputeOf<T>) : 0;
    return TENSORD_LAUNCH(SoftmaxRows<T>, blocks, kSoftmaxThreads, bytes, stream, params);
  });
}

cudaError_t LaunchSoftmaxColumns(Dtype dtype, const SoftmaxParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(
      dtype, [&]<class T>() { return TENSORD_LAUNCH(SoftmaxColumns<T>, blocks, kSoftmaxThreads, 0, stream, params); });
}

}  // namespace tensord::cuda
