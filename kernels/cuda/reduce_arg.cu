// Positions of extremes: argmax, and argmin over flipped values.
#include "kernels/cuda/reduce_kernels.cuh"

namespace tensord::cuda {
namespace {

template <class A>
struct Extreme {
  A value;
  int64_t position;  // -1: no element yet
};

template <class A>
struct ArgReducer {
  using State = Extreme<A>;
  using Value = A;
  using Bits = std::conditional_t<sizeof(A) == 4, uint32_t, uint64_t>;

  __device__ explicit ArgReducer(const ReduceParams& p) : last_(p.last) {}

  __device__ __forceinline__ State Identity() const { return State{A(0), -1}; }
  // A total order, positions included: which is met first makes no difference.
  __device__ __forceinline__ State Merge(const State& a, const State& b) const { return Beats(b, a) ? b : a; }
  __device__ __forceinline__ State Exchange(const State& a, int distance) const {
    return State{__shfl_xor_sync(kAllLanes, a.value, distance), __shfl_xor_sync(kAllLanes, a.position, distance)};
  }
  template <int kCount>
  __device__ __forceinline__ void Load(const ReduceParams& p, const int64_t (&at)[kCount], A (&values)[kCount]) const {
    LoadElements<A>(p.in_dtype, p.in, at, values);
  }
  __device__ __forceinline__ A Shift(const ReduceParams&, int64_t) const { return A(0); }
  __device__ __forceinline__ State Take(const ReduceParams& p, const State& state, A value, A, int64_t position,
                                        int64_t at) const {
    const auto flipped = static_cast<Bits>(__builtin_bit_cast(Bits, value) ^ static_cast<Bits>(p.flip_in));
    return Merge(state, State{__builtin_bit_cast(A, flipped), p.positions != nullptr ? p.positions[at] : position});
  }
  __device__ __forceinline__ void Finish(const ReduceParams& p, int64_t output, const State& state) const {
    static_cast<int64_t*>(p.out)[output] = state.position;
  }
  __device__ __forceinline__ void Keep(const ReduceParams& p, int64_t place, const State& state) const {
    static_cast<A*>(p.out)[place] = state.value;
    p.out_positions[place] = state.position;
  }

 private:
  __device__ __forceinline__ bool Beats(const State& a, const State& b) const {
    if (b.position < 0) return a.position >= 0;
    if (a.position < 0) return false;
    const bool a_nan = a.value != a.value;
    const bool b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan;
    if (!a_nan && a.value != b.value) return a.value > b.value;
    return last_ ? a.position > b.position : a.position < b.position;
  }

  bool last_;
};

}  // namespace

cudaError_t LaunchArgReduce(ReduceLane lane, ReduceForm form, const ReduceParams& params, unsigned blocks,
                            cudaStream_t stream) {
  switch (lane) {
    case ReduceLane::kFloat:
      return LaunchForm<ArgReducer<float>>(form, params, blocks, stream);
    case ReduceLane::kDouble:
      return LaunchForm<ArgReducer<double>>(form, params, blocks, stream);
    case ReduceLane::kInt64:
      break;
  }
  return LaunchForm<ArgReducer<int64_t>>(form, params, blocks, stream);
}

}  // namespace tensord::cuda
