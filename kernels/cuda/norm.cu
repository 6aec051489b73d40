// Normalisations. Variance is the mean square of what is left when the mean is taken away, so that nothing cancels.
#include "kernels/cuda/block_reduce.cuh"
#include "kernels/cuda/norm.cuh"
#include "kernels/cuda/reduce_element.cuh"

namespace tensord::cuda {
namespace {

template <class T>
__device__ __forceinline__ T Affine(ComputeOf<T> x, ComputeOf<T> scale, const T* weight, const T* bias, int64_t at) {
  ComputeOf<T> value = x * scale;
  if (weight != nullptr) value *= Widen(weight[at]);
  if (bias != nullptr) value += Widen(bias[at]);
  return Narrow<T>(value);
}

template <class C>
__device__ __forceinline__ C MeanOf(C sum, int64_t n) {
  return static_cast<C>(static_cast<double>(sum) / static_cast<double>(n));
}

template <class C>
__device__ __forceinline__ C ScaleOf(C squares, int64_t n, double epsilon) {
  return static_cast<C>(1.0 / math::Sqrt(static_cast<double>(squares) / static_cast<double>(n) + epsilon));
}

// `width` lanes to a row, which they keep in registers.
template <class T>
__global__ void __launch_bounds__(kNormThreads) LayerNormGroups(const LayerNormParams p) {
  using C = ComputeOf<T>;
  constexpr int kHeld = kNormGroupRow / kWarp;
  const T* weight = static_cast<const T*>(p.weight);
  const T* bias = static_cast<const T*>(p.bias);
  const int lane = static_cast<int>(threadIdx.x) & (p.width - 1);
  const int groups = kNormThreads / p.width;
  const int group = static_cast<int>(threadIdx.x) / p.width;
  const int64_t step = static_cast<int64_t>(gridDim.x) * groups;
  for (int64_t base = static_cast<int64_t>(blockIdx.x) * groups; base < p.rows; base += step) {
    const bool active = base + group < p.rows;
    const int64_t row = (active ? base + group : base) * p.n;
    const T* x = static_cast<const T*>(p.x) + row;
    T* out = static_cast<T*>(p.out) + row;
    C held[kHeld];
    C sum = 0;
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const int at = lane + i * p.width;
      held[i] = at < p.n ? Widen(x[at]) : C(0);
      sum += held[i];
    }
    const C mean = MeanOf(GroupAll(Add<C>{}, sum, p.width), p.n);
    C squares = 0;
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      held[i] -= mean;
      if (lane + i * p.width < p.n) squares += held[i] * held[i];
    }
    const C scale = ScaleOf(GroupAll(Add<C>{}, squares, p.width), p.n, p.epsilon);
    TENSORD_UNROLL
    for (int i = 0; i < kHeld; ++i) {
      const int at = lane + i * p.width;
      if (active && at < p.n) out[at] = Affine(held[i], scale, weight, bias, at);
    }
  }
}

// A block to a row; in shared memory where it fits, else read again.
template <class T>
__global__ void __launch_bounds__(kNormThreads) LayerNormRows(const LayerNormParams p) {
  using C = ComputeOf<T>;
  TENSORD_DYNAMIC_SHARED(C, kept);
  TENSORD_SHARED(C, parts, kNormThreads / kWarp);
  const T* weight = static_cast<const T*>(p.weight);
  const T* bias = static_cast<const T*>(p.bias);
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const T* x = static_cast<const T*>(p.x) + row * p.n;
    T* out = static_cast<T*>(p.out) + row * p.n;
    // A thread reads back only what it has kept itself.
    RunningSum<C> sum;
    for (int64_t i = threadIdx.x; i < p.n; i += kNormThreads) {
      const C value = Widen(x[i]);
      if (p.kept) kept[i] = value;
      sum.Take(value);
    }
    const C mean = MeanOf(BlockAll(Add<C>{}, sum.Total(), parts), p.n);
    RunningSum<C> squares;
    for (int64_t i = threadIdx.x; i < p.n; i += kNormThreads) {
      const C left = (p.kept ? kept[i] : Widen(x[i])) - mean;
      squares.Take(left * left);
    }
    const C scale = ScaleOf(BlockAll(Add<C>{}, squares.Total(), parts), p.n, p.epsilon);
    for (int64_t i = threadIdx.x; i < p.n; i += kNormThreads) {
      const C left = (p.kept ? kept[i] : Widen(x[i])) - mean;
      out[i] = Affine(left, scale, weight, bias, i);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kNormThreads) BatchNormScale(const BatchNormParams p) {
  using C = ComputeOf<T>;
  const T* weight = static_cast<const T*>(p.weight);
  for (int64_t c = FirstIndex(); c < p.channels.by; c += IndexStep()) {
    const double w = weight != nullptr ? static_cast<double>(Widen(weight[c])) : 1.0;
    const auto variance = static_cast<double>(Widen(static_cast<const T*>(p.variance)[c]));
    static_cast<C*>(p.scale)[c] = static_cast<C>(w / math::Sqrt(variance + p.epsilon));
  }
}

template <class T>
__global__ void __launch_bounds__(kNormThreads) BatchNorm(const BatchNormParams p) {
  using C = ComputeOf<T>;
  const T* x = static_cast<const T*>(p.x);
  const T* mean = static_cast<const T*>(p.mean);
  const T* bias = static_cast<const T*>(p.bias);
  const C* scale = static_cast<const C*>(p.scale);
  T* out = static_cast<T*>(p.out);
  for (int64_t i = FirstIndex(); i < p.elements; i += IndexStep()) {
    int64_t rest = 0;
    int64_t channel = 0;
    DivMod(DivMod(i, p.space, &rest), p.channels, &channel);
    C value = (Widen(x[i]) - Widen(mean[channel])) * scale[channel];
    if (bias != nullptr) value += Widen(bias[channel]);
    out[i] = Narrow<T>(value);
  }
}

}  // namespace

cudaError_t LaunchLayerNormGroups(Dtype dtype, const LayerNormParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype, [&]<class T>() {
    if (params.width == 1) return TENSORD_LAUNCH_FLAT(LayerNormGroups<T>, blocks, kNormThreads, stream, params);
    return TENSORD_LAUNCH(LayerNormGroups<T>, blocks, kNormThreads, 0, stream, params);
  });
}

cudaError_t LaunchLayerNormRows(Dtype dtype, const LayerNormParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype, [&]<class T>() {
    const size_t bytes = params.kept ? static_cast<size_t>(params.n) * sizeof(ComputeOf<T>) : 0;
    return TENSORD_LAUNCH(LayerNormRows<T>, blocks, kNormThreads, bytes, stream, params);
  });
}

cudaError_t LaunchBatchNormScale(Dtype dtype, const BatchNormParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(
      dtype, [&]<class T>() { return TENSORD_LAUNCH_FLAT(BatchNormScale<T>, blocks, kNormThreads, stream, params); });
}

cudaError_t LaunchBatchNorm(Dtype dtype, const BatchNormParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(dtype,
                  [&]<class T>() { return TENSORD_LAUNCH_FLAT(BatchNorm<T>, blocks, kNormThreads, stream, params); });
}

}  // namespace tensord::cuda
