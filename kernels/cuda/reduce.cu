// Sums, products and extremes. Positions of extremes are in reduce_arg.cu.
#include "kernels/cuda/reduce_kernels.cuh"

namespace tensord::cuda {
namespace {

template <class A>
using BitsOf = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;

template <class A>
__device__ __forceinline__ A Flip(A x, uint64_t mask) {
  return __builtin_bit_cast(A, static_cast<BitsOf<A>>(__builtin_bit_cast(BitsOf<A>, x) ^ static_cast<BitsOf<A>>(mask)));
}

template <class A, ReduceKind kKind>
struct Reducer {
  using State = A;
  using Value = A;
  static constexpr bool kInteger = std::is_same_v<A, int64_t>;

  __device__ explicit Reducer(const ReduceParams&) {}

  __device__ __forceinline__ A Identity() const {
    if constexpr (kKind == ReduceKind::kSum) {
      return A(0);
    } else if constexpr (kKind == ReduceKind::kProd) {
      return A(1);
    } else if constexpr (kInteger) {
      return INT64_MIN;
    } else {
      return -static_cast<A>(__builtin_huge_val());
    }
  }
  __device__ __forceinline__ A Merge(A a, A b) const {
    if constexpr (kKind == ReduceKind::kMax) {
      if constexpr (kInteger) return b > a ? b : a;
      return Larger<A>{}.Merge(a, b);
    } else if constexpr (kInteger) {
      const auto x = static_cast<uint64_t>(a);
      const auto y = static_cast<uint64_t>(b);
      return static_cast<int64_t>(kKind == ReduceKind::kSum ? x + y : x * y);
    } else {
      return kKind == ReduceKind::kSum ? a + b : a * b;
    }
  }
  __device__ __forceinline__ A Exchange(A a, int distance) const { return __shfl_xor_sync(kAllLanes, a, distance); }

  template <int kCount>
  __device__ __forceinline__ void Load(const ReduceParams& p, const int64_t (&at)[kCount], A (&values)[kCount]) const {
    if constexpr (kKind == ReduceKind::kMax && kInteger) {
      if (p.nonzero) {
        LoadNonZero(p.in_dtype, p.in, at, values);
        return;
      }
    }
    LoadElements<A>(p.in_dtype, p.in, at, values);
  }
  __device__ __forceinline__ A Shift(const ReduceParams& p, int64_t output) const {
    if constexpr (kKind == ReduceKind::kSum && !kInteger) {
      if (p.shift != nullptr) return static_cast<const A*>(p.shift)[output];
    }
    return A(0);
  }
  __device__ __forceinline__ A Take(const ReduceParams& p, A state, A value, A shift, int64_t, int64_t) const {
    if constexpr (kKind == ReduceKind::kMax) {
      value = Flip(value, p.flip_in);
    } else if constexpr (kKind == ReduceKind::kSum && !kInteger) {
      value -= shift;
      if (p.square) value *= value;
    }
    return Merge(state, value);
  }
  __device__ __forceinline__ void Finish(const ReduceParams& p, int64_t output, A total) const {
    if constexpr (kKind == ReduceKind::kMax) {
      total = Flip(total, p.flip_out);
      // The identity, which is left where there are no elements, becomes what any and all are then.
      if constexpr (kInteger) {
        if (p.out_dtype == Dtype::kBool) total = total > 0 ? 1 : 0;
      }
    } else if constexpr (kKind == ReduceKind::kSum && !kInteger) {
      if (p.divide) total = static_cast<A>(static_cast<double>(total) / p.divisor);
      if (p.root) total = math::Sqrt(total);
    }
    StoreElement<A>(p.out_dtype, p.out, output, total);
  }
  __device__ __forceinline__ void Keep(const ReduceParams& p, int64_t place, A total) const {
    static_cast<A*>(p.out)[place] = total;
  }
};

template <ReduceKind kKind>
cudaError_t LaunchKind(ReduceLane lane, ReduceForm form, const ReduceParams& p, unsigned blocks, cudaStream_t stream) {
  switch (lane) {
    case ReduceLane::kFloat:
      return LaunchForm<Reducer<float, kKind>>(form, p, blocks, stream);
    case ReduceLane::kDouble:
      return LaunchForm<Reducer<double, kKind>>(form, p, blocks, stream);
    case ReduceLane::kInt64:
      break;
  }
  return LaunchForm<Reducer<int64_t, kKind>>(form, p, blocks, stream);
}

}  // namespace

cudaError_t LaunchReduce(ReduceKind kind, ReduceLane lane, ReduceForm form, const ReduceParams& params, unsigned blocks,
                         cudaStream_t stream) {
  switch (kind) {
    case ReduceKind::kSum:
      return LaunchKind<ReduceKind::kSum>(lane, form, params, blocks, stream);
    case ReduceKind::kProd:
      return LaunchKind<ReduceKind::kProd>(lane, form, params, blocks, stream);
    case ReduceKind::kMax:
      return LaunchKind<ReduceKind::kMax>(lane, form, params, blocks, stream);
    case ReduceKind::kArgMax:
      break;
  }
  return LaunchArgReduce(lane, form, params, blocks, stream);
}

}  // namespace tensord::cuda
