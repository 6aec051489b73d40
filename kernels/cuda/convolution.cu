// Convolution: by tiles of a product with unfolded columns that never exist in memory, or a thread to an output.
#include "kernels/cuda/gemm_tile.cuh"
#include "kernels/cuda/window_taps.cuh"

namespace tensord::cuda {
namespace {

// Where tap `tap` of the outer axes reads: the flat place on them, or -1 outside. `outer` is the output's place on
// them, which what lies above it leaves alone.
__device__ __forceinline__ int64_t OuterPlace(const ConvolutionParams& p, int64_t outer, int64_t tap) {
  int64_t place = 0;
  int64_t step = 1;
  bool inside = true;
  for (int d = p.outer_axes - 1; d >= 0; --d) {
    const OuterAxis& axis = p.outer[d];
    int64_t output = 0;
    int64_t own = 0;
    outer = DivMod(outer, axis.out, &output);
    tap = DivMod(tap, axis.window, &own);
    const int64_t at = output * axis.stride - axis.pad + own * axis.dilation;
    inside &= at >= 0 && at < axis.in;
    place += at * step;
    step *= axis.in;
  }
  return inside ? place : -1;
}

template <class T>
__global__ void __launch_bounds__(kWindowThreads, 2) Convolution(const ConvolutionParams p) {
  using C = ComputeOf<T>;
  const InnerAxis& a0 = p.inner[0];
  const InnerAxis& a1 = p.inner[1];
  const InnerAxis& a2 = p.inner[2];
  const int64_t inner_space = a0.in * a1.in * a2.in;
  const int64_t inner_taps = a0.window * a1.window * a2.window;
  for (int64_t index = FirstIndex(); index < p.outputs; index += IndexStep()) {
    int64_t o0 = 0;
    int64_t o1 = 0;
    int64_t o2 = 0;
    int64_t rest = DivMod(DivMod(DivMod(index, a2.out, &o2), a1.out, &o1), a0.out, &o0);
    // The outer axes' outputs are taken off to find the result's channel, and kept for OuterPlace, which needs them
    // only below that.
    const int64_t outer = rest;
    for (int d = p.outer_axes - 1; d >= 0; --d) {
      int64_t unused = 0;
      rest = DivMod(rest, p.outer[d].out, &unused);
    }
    int64_t channel_out = 0;
    int64_t unused = 0;
    const int64_t sample = DivMod(rest, p.all_outs, &channel_out);
    const int64_t group = DivMod(channel_out, p.group_outs, &unused);
    const Taps t0 = TapsOf(a0, o0);
    const Taps t1 = TapsOf(a1, o1);
    const Taps t2 = TapsOf(a2, o2);
    const int64_t first_plane = (sample * p.groups + group) * p.channels;
    C total = 0;
    for (int64_t c = 0; c < p.channels; ++c) {
      const T* plane = static_cast<const T*>(p.x) + (first_plane + c) * p.outer_space * inner_space;
      const T* weight = static_cast<const T*>(p.weight) + (channel_out * p.channels + c) * p.outer_taps * inner_taps;
      C sum = 0;
      for (int64_t tap = 0; tap < p.outer_taps; ++tap) {
        const int64_t place = OuterPlace(p, outer, tap);
        if (place < 0) continue;
        const T* x = plane + place * inner_space;
        const T* w = weight + tap * inner_taps;
        for (int64_t i = t0.first; i < t0.last; ++i) {
          for (int64_t j = t1.first; j < t1.last; ++j) {
            const int64_t row =
                ((t0.place + i * a0.dilation.by) * a1.in + t1.place + j * a1.dilation.by) * a2.in + t2.place;
            const int64_t row_taps = (i * a1.window + j) * a2.window;
            for (int64_t k = t2.first; k < t2.last; ++k) {
              sum = MultiplyAdd(Widen(x[row + k * a2.dilation.by]), Widen(w[row_taps + k]), sum);
            }
          }
        }
      }
      total += sum;
    }
    if (p.bias != nullptr) total += Widen(static_cast<const T*>(p.bias)[channel_out]);
    static_cast<T*>(p.out)[index] = Narrow<T>(total);
  }
}

// One row of the unfolded columns: a channel and a tap.
struct UnfoldedRow {
  int64_t plane;  // of x, from the group's first
  int64_t shift[kInnerAxes];
};

template <class T, int kPer>
__global__ void __launch_bounds__(kGemmSide* kGemmSide, 2) TiledConvolution(const TiledConvolutionParams p) {
  using C = ComputeOf<T>;
  constexpr int kTile = kGemmSide * kPer;
  constexpr int kThreads = kGemmSide * kGemmSide;
  using Shared = GemmShared<C, kPer>;
  TENSORD_SHARED(Shared, shared, 1);
  TENSORD_SHARED(UnfoldedRow, rows, kGemmDepth);
  const int thread = static_cast<int>(threadIdx.x);
  const int64_t space = p.inner[0].in * p.inner[1].in * p.inner[2].in;
  const int64_t tasks = p.groups * p.row_tiles.by * p.column_tiles.by;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    int64_t column_tile = 0;
    int64_t row_tile = 0;
    const int64_t group = DivMod(DivMod(task, p.column_tiles, &column_tile), p.row_tiles, &row_tile);
    const int64_t row = row_tile * kTile;
    const int64_t column = column_tile * kTile;
    const T* weight = static_cast<const T*>(p.weight) + group * p.group_outs * p.depth;

    // Each thread fills one column of the unfolded tile: its place in x stays the same along k.
    const int own = thread % kTile;
    const bool inside_columns = column + own < p.columns;
    int64_t place = 0;
    const int64_t sample = DivMod(inside_columns ? column + own : 0, p.places, &place);
    int64_t o[kInnerAxes];
    DivMod(DivMod(DivMod(place, p.inner[2].out, &o[2]), p.inner[1].out, &o[1]), p.inner[0].out, &o[0]);
    TENSORD_UNROLL
    for (int d = 0; d < kInnerAxes; ++d) o[d] = o[d] * p.inner[d].stride - p.inner[d].pad;
    const T* x = static_cast<const T*>(p.x) + (sample * p.groups + group) * p.channels * space;

    C sums[kPer][kPer] = {};
    MultiplyTile<C, kPer>(
        sums, shared[0], 0, p.depth,
        [&](int64_t k) {
          if (thread < kGemmDepth && k + thread < p.depth) {
            UnfoldedRow unfolded;
            int64_t tap = 0;
            unfolded.plane = DivMod(k + thread, p.taps, &tap);
            TENSORD_UNROLL
            for (int d = kInnerAxes - 1; d >= 0; --d) {
              tap = DivMod(tap, p.window[d], &unfolded.shift[d]);
              unfolded.shift[d] *= p.inner[d].dilation.by;
            }
            rows[thread] = unfolded;
          }
          TENSORD_UNROLL
          for (int u = 0; u < kPer; ++u) {
            const int line = (thread + u * kThreads) / kGemmDepth;
            const int depth = thread % kGemmDepth;
            const bool inside = row + line < p.group_outs && k + depth < p.depth;
            shared[0].a[depth][line] = inside ? Widen(weight[(row + line) * p.depth + k + depth]) : C(0);
          }
        },
        [&](int64_t k) {
          __syncthreads();  // rows
          TENSORD_UNROLL
          for (int u = 0; u < kPer; ++u) {
            const int depth = (thread + u * kThreads) / kTile;
            C value = 0;
            if (inside_columns && k + depth < p.depth) {
              const UnfoldedRow& unfolded = rows[depth];
              const int64_t p0 = o[0] + unfolded.shift[0];
              const int64_t p1 = o[1] + unfolded.shift[1];
              const int64_t p2 = o[2] + unfolded.shift[2];
              const bool inside =
                  p0 >= 0 && p0 < p.inner[0].in && p1 >= 0 && p1 < p.inner[1].in && p2 >= 0 && p2 < p.inner[2].in;
              if (inside) value = Widen(x[unfolded.plane * space + (p0 * p.inner[1].in + p1) * p.inner[2].in + p2]);
            }
            shared[0].b[depth][own] = value;
          }
        });
    TENSORD_UNROLL
    for (int j = 0; j < kPer; ++j) {
      const int64_t c = column + thread % kGemmSide + j * kGemmSide;
      if (c >= p.columns) continue;
      int64_t at = 0;
      const int64_t out_sample = DivMod(c, p.places, &at);
      TENSORD_UNROLL
      for (int i = 0; i < kPer; ++i) {
        const int64_t r = row + thread / kGemmSide + i * kGemmSide;
        if (r >= p.group_outs) continue;
        const int64_t channel = group * p.group_outs + r;
        C sum = sums[i][j];
        if (p.bias != nullptr) sum += Widen(static_cast<const T*>(p.bias)[channel]);
        static_cast<T*>(p.out)[(out_sample * p.groups * p.group_outs + channel) * p.places.by + at] = Narrow<T>(sum);
      }
    }
  }
}

}  // namespace

cudaError_t LaunchConvolution(Dtype dtype, const ConvolutionParams& params, unsigned blocks, cudaStream_t stream) {
  return WithReal(
      dtype, [&]<class T>() { return TENSORD_LAUNCH_FLAT(Convolution<T>, blocks, kWindowThreads, stream, params); });
}

cudaError_t LaunchTiledConvolution(Dtype dtype, bool large, const TiledConvolutionParams& params, unsigned blocks,
                                   cudaStream_t stream) {
  constexpr int kThreads = kGemmSide * kGemmSide;
  return WithReal(dtype, [&]<class T>() {
    if (large) return TENSORD_LAUNCH((TiledConvolution<T, 4>), blocks, kThreads, 0, stream, params);
    return TENSORD_LAUNCH((TiledConvolution<T, 1>), blocks, kThreads, 0, stream, params);
  });
}

}  // namespace tensord::cuda
