// Products by tiles in shared memory. Float products of any size go to cuBLASLt (cublaslt.h) where it pays.
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/gemm_tile.cuh"

namespace tensord::cuda {
namespace {

// How elements of the operands are loaded.
template <class A>
using LoadedAs = std::conditional_t<std::is_integral_v<A>, int64_t, A>;

// Elements [first, first + extent) along a line of the operand by kGemmDepth along k, to `to`; zeros outside.
// Neighbouring threads read along the smaller stride.
template <class A, int kPer>
__device__ __forceinline__ void LoadPanel(const GemmOperand& operand, int64_t base, int64_t line_stride,
                                          int64_t k_stride, int64_t first, int64_t lines, int64_t p, int64_t end,
                                          A (&to)[kGemmDepth][kGemmSide * kPer + 1]) {
  constexpr int kTile = kGemmSide * kPer;
  const bool along_k = (k_stride < 0 ? -k_stride : k_stride) < (line_stride < 0 ? -line_stride : line_stride);
  int line[kPer];
  int depth[kPer];
  int64_t at[kPer];
  LoadedAs<A> values[kPer];
  TENSORD_UNROLL
  for (int u = 0; u < kPer; ++u) {
    const int index = static_cast<int>(threadIdx.x) + u * kGemmThreads;
    line[u] = along_k ? index / kGemmDepth : index % kTile;
    depth[u] = along_k ? index % kGemmDepth : index / kTile;
    // Outside, the first element is loaded and left out below.
    const bool inside = first + line[u] < lines && p + depth[u] < end;
    at[u] = base + (inside ? (first + line[u]) * line_stride + (p + depth[u]) * k_stride : 0);
  }
  LoadElements(operand.dtype, operand.data, at, values);
  TENSORD_UNROLL
  for (int u = 0; u < kPer; ++u) {
    const bool inside = first + line[u] < lines && p + depth[u] < end;
    to[depth[u]][line[u]] = inside ? static_cast<A>(values[u]) : A(0);
  }
}

template <class A>
__device__ __forceinline__ void StoreSum(const GemmParams& p, int64_t place, int64_t column, A sum) {
  LoadedAs<A> value = static_cast<LoadedAs<A>>(sum);
  if (p.bias != nullptr) value += LoadElement<LoadedAs<A>>(p.bias_dtype, p.bias, column);
  StoreElement(p.out_dtype, p.out, place, value);
}

template <class A, int kPer>
__global__ void __launch_bounds__(kGemmThreads, 2) Gemm(const GemmParams p) {
  constexpr int kTile = kGemmSide * kPer;
  using Shared = GemmShared<A, kPer>;
  TENSORD_SHARED(Shared, shared, 1);
  const int64_t tasks = p.count * p.row_tiles.by * p.column_tiles.by * p.splits.by;
  for (int64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    int64_t split = 0;
    int64_t column_tile = 0;
    int64_t row_tile = 0;
    int64_t matrix =
        DivMod(DivMod(DivMod(task, p.splits, &split), p.column_tiles, &column_tile), p.row_tiles, &row_tile);
    const int64_t out = matrix * p.m * p.n.by;
    int64_t a_base = 0;
    int64_t b_base = 0;
    for (int d = p.rank - 1; d >= 0; --d) {
      int64_t at = 0;
      matrix = DivMod(matrix, p.batch[d].size, &at);
      a_base += at * p.batch[d].a_stride;
      b_base += at * p.batch[d].b_stride;
    }
    const int64_t row = row_tile * kTile;
    const int64_t column = column_tile * kTile;
    const int64_t begin = split * p.run;
    const int64_t end = begin + p.run < p.k ? begin + p.run : p.k;
    A sums[kPer][kPer] = {};
    MultiplyTile<A, kPer>(
        sums, shared[0], begin, end,
        [&](int64_t k) {
          LoadPanel<A, kPer>(p.a, a_base, p.a.row_stride, p.a.column_stride, row, p.m, k, end, shared[0].a);
        },
        [&](int64_t k) {
          LoadPanel<A, kPer>(p.b, b_base, p.b.column_stride, p.b.row_stride, column, p.n.by, k, end, shared[0].b);
        });
    TENSORD_UNROLL
    for (int i = 0; i < kPer; ++i) {
      TENSORD_UNROLL
      for (int j = 0; j < kPer; ++j) {
        const int64_t r = row + static_cast<int>(threadIdx.x) / kGemmSide + i * kGemmSide;
        const int64_t c = column + static_cast<int>(threadIdx.x) % kGemmSide + j * kGemmSide;
        if (r >= p.m || c >= p.n.by) continue;
        const int64_t place = out + r * p.n.by + c;
        if (p.splits.by == 1) {
          StoreSum(p, place, c, sums[i][j]);
        } else {
          static_cast<A*>(p.out)[split * p.elements.by + place] = sums[i][j];
        }
      }
    }
  }
}

template <class A>
__global__ void __launch_bounds__(kGemmThreads) GemmSum(const GemmParams p, const A* partials) {
  for (int64_t i = FirstIndex(); i < p.elements.by; i += IndexStep()) {
    A sum = 0;
    for (int64_t split = 0; split < p.splits.by; ++split) sum += partials[split * p.elements.by + i];
    int64_t column = 0;
    DivMod(i, p.n, &column);
    StoreSum(p, i, column, sum);
  }
}

template <class F>
cudaError_t WithLane(GemmLane lane, F&& f) {
  switch (lane) {
    case GemmLane::kFloat:
      return f.template operator()<float>();
    case GemmLane::kDouble:
      return f.template operator()<double>();
    case GemmLane::kUint32:
      return f.template operator()<uint32_t>();
    case GemmLane::kUint64:
      break;
  }
  return f.template operator()<uint64_t>();
}

}  // namespace

cudaError_t LaunchGemm(GemmLane lane, int tile, const GemmParams& params, unsigned blocks, cudaStream_t stream) {
  return WithLane(lane, [&]<class A>() {
    if (tile == kGemmSmallTile) return TENSORD_LAUNCH((Gemm<A, 1>), blocks, kGemmThreads, 0, stream, params);
    return TENSORD_LAUNCH((Gemm<A, kGemmLargeTile / kGemmSide>), blocks, kGemmThreads, 0, stream, params);
  });
}

cudaError_t LaunchGemmSum(GemmLane lane, const GemmParams& params, const void* partials, unsigned blocks,
                          cudaStream_t stream) {
  return WithLane(lane, [&]<class A>() {
    return TENSORD_LAUNCH_FLAT(GemmSum<A>, blocks, kGemmThreads, stream, params, static_cast<const A*>(partials));
  });
}

}  // namespace tensord::cuda
