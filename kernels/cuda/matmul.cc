// Matmul: matmul and linear. Real products by cuBLASLt; small ones and integers by a kernel of our own.
#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/cublaslt.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/gemm.cuh"
#include "kernels/cuda/matmul_plan.h"

namespace tensord::cuda {
namespace {

// Multiply-adds from which a product is cuBLASLt's. Below, its choice of an algorithm costs more than the product; a
// host that multiplies nothing larger never loads it.
constexpr int64_t kLibraryWork = 64 * 64 * 64;

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }

GemmLane LaneOf(Dtype dtype) {
  if (dtype == Dtype::kFloat64) return GemmLane::kDouble;
  if (IsReal(dtype)) return GemmLane::kFloat;
  return ItemSize(dtype) <= 4 ? GemmLane::kUint32 : GemmLane::kUint64;
}

// Whether the kernel loads a dtype into the lane of another, exactly.
bool Loads(Dtype dtype, Dtype compute) {
  if (!IsReal(compute)) return !IsReal(dtype);
  return IsReal(dtype) && LaneOf(dtype) == LaneOf(compute);
}

absl::StatusOr<Dense> Bring(const TensorView& x, Dtype compute, Context& context) {
  if (Loads(x.dtype, compute)) return Dense{x, std::nullopt};
  return ToDense(x, compute, context);
}

// a · b by tiles; in several runs of k, which a second kernel adds up, where few results have a long one.
absl::Status ByTiles(const MatmulPlan& plan, Dtype compute, const TensorView* bias, const TensorView& out,
                     Context& context) {
  GemmParams params;
  params.a = {plan.a.data, plan.a.row_stride, plan.a.column_stride, plan.a.dtype};
  params.b = {plan.b.data, plan.b.row_stride, plan.b.column_stride, plan.b.dtype};
  params.m = plan.m;
  params.k = plan.k;
  params.n = MakeDivisor(plan.n);
  params.count = plan.count();
  params.elements = MakeDivisor(out.elements());
  params.out = out.data;
  params.out_dtype = out.dtype;
  if (bias != nullptr) {
    params.bias = bias->data;
    params.bias_dtype = bias->dtype;
  }
  params.rank = static_cast<int32_t>(plan.batch.size());
  for (size_t i = 0; i < plan.batch.size(); ++i) {
    params.batch[i] = {MakeDivisor(plan.batch[i]), plan.a.batch[i], plan.b.batch[i]};
  }
  const int tile = plan.m > 32 && plan.n > 32 ? kGemmLargeTile : kGemmSmallTile;
  params.row_tiles = MakeDivisor(Ceil(plan.m, tile));
  params.column_tiles = MakeDivisor(Ceil(plan.n, tile));
  // The cut follows from the shape alone, so that results have the same bits on every device.
  constexpr int64_t kRunLeast = 512;
  constexpr int64_t kBlocksWanted = 128;
  const int64_t tiles = params.count * params.row_tiles.by * params.column_tiles.by;
  const int64_t runs = std::min(Ceil(plan.k, kRunLeast), std::max<int64_t>(1, kBlocksWanted / tiles));
  params.run = Ceil(Ceil(plan.k, runs), kGemmSmallTile) * kGemmSmallTile;
  params.splits = MakeDivisor(Ceil(plan.k, params.run));

  const GemmLane lane = LaneOf(compute);
  const unsigned blocks = GridFor(tiles * params.splits.by * kGemmThreads, kGemmThreads, context.traits);
  if (params.splits.by == 1) {
    return ToStatus(LaunchGemm(lane, tile, params, blocks, context.stream), context.traits, "matmul");
  }
  const size_t item = lane == GemmLane::kFloat || lane == GemmLane::kUint32 ? 4 : 8;
  const size_t bytes = static_cast<size_t>(out.elements() * params.splits.by) * item;
  TENSORD_ASSIGN_OR_RETURN(const Scratch partials, Scratch::Allocate(bytes, context));
  params.out = partials.data();
  cudaError_t error = LaunchGemm(lane, tile, params, blocks, context.stream);
  params.out = out.data;
  if (error == cudaSuccess) {
    const unsigned few = GridFor(out.elements(), kGemmThreads, context.traits);
    error = LaunchGemmSum(lane, params, partials.data(), few, context.stream);
  }
  return ToStatus(error, context.traits, "matmul");
}

// Leading dimension of a side, and whether it is stored transposed.
int64_t Leading(const MatmulSide& side, bool* transposed) {
  *transposed = !side.by_rows();
  if (*transposed) return side.columns == 1 ? side.rows : side.column_stride;
  return side.rows == 1 ? side.columns : side.row_stride;
}

// The library takes one axis of the batch; the others are gone through here.
absl::Status ByLibrary(const MatmulPlan& plan, const TensorView* bias, const TensorView& out, Context& context) {
  const bool batched = !plan.batch.empty();
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  GemmCall call;
  call.dtype = out.dtype;
  call.m = plan.m;
  call.n = plan.n;
  call.k = plan.k;
  call.batch = batched ? plan.batch.back() : 1;
  call.a_leading = Leading(plan.a, &call.a_transposed);
  call.b_leading = Leading(plan.b, &call.b_transposed);
  call.out_leading = plan.n;
  call.a_batch_stride = batched ? plan.a.batch.back() : 0;
  call.b_batch_stride = batched ? plan.b.batch.back() : 0;
  call.out_batch_stride = plan.m * plan.n;
  call.bias = bias != nullptr ? bias->data : nullptr;
  const int64_t calls = plan.count() / call.batch;
  for (int64_t i = 0; i < calls; ++i) {
    int64_t rest = i;
    int64_t a = 0;
    int64_t b = 0;
    for (size_t d = batched ? plan.batch.size() - 1 : 0; d-- > 0;) {
      a += rest % plan.batch[d] * plan.a.batch[d];
      b += rest % plan.batch[d] * plan.b.batch[d];
      rest /= plan.batch[d];
    }
    call.a = static_cast<const char*>(plan.a.data) + a * item;
    call.b = static_cast<const char*>(plan.b.data) + b * item;
    call.out = out.as<char>() + i * call.batch * plan.m * plan.n * item;
    TENSORD_RETURN_IF_ERROR(context.blas.Gemm(call, context));
  }
  return absl::OkStatus();
}

// Without a k every product is 0, and the bias alone is left.
absl::Status Nothing(const TensorView* bias, const TensorView& out, Context& context) {
  if (bias == nullptr) {
    const auto bytes = static_cast<size_t>(out.bytes());
    return ToStatus(cudaMemsetAsync(out.data, 0, bytes, context.stream), context.traits, "cudaMemsetAsync");
  }
  TensorView rows = *bias;
  rows.shape = out.shape;
  rows.strides.assign(out.shape.size(), 0);
  rows.strides.back() = bias->strides[0];
  return CopyStrided(rows, out, context);
}

}  // namespace

absl::Status RunMatmul(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<MatmulAttributes>(*call.attributes);
  const bool linear = call.op == Op::kLinear;
  const TensorView& out = call.outputs[0];
  if (out.elements() == 0) return absl::OkStatus();
  const TensorView& x1 = *call.inputs[0].tensor;
  const TensorView& x2 = *call.inputs[1].tensor;
  const TensorView* bias_in = linear && call.inputs.size() > 2 ? call.inputs[2].tensor : nullptr;
  const Dtype compute = call.compute == Dtype::kNone ? out.dtype : call.compute;

  // The batch is the result's shape without the axes of the matrices.
  Dims batch = out.shape;
  batch.resize(batch.size() - (x1.rank() == 1 ? 0 : 1) - (x2.rank() == 1 ? 0 : 1));
  const bool transpose_a = attributes.transpose_a && !linear;
  const bool transpose_b = attributes.transpose_b || linear;
  const auto plan_of = [&](const TensorView& a, const TensorView& b) {
    return MakeMatmulPlan(a, transpose_a, b, transpose_b, batch);
  };

  Dense bias;
  const TensorView* bias_view = nullptr;
  if (bias_in != nullptr) {
    TENSORD_ASSIGN_OR_RETURN(bias, ToDense(*bias_in, compute, context));
    bias_view = &bias.view;
  }
  MatmulPlan plan = plan_of(x1, x2);
  if (plan.k == 0) return Nothing(bias_view, out, context);
  const bool by_library = IsReal(compute) && out.elements() >= Ceil(kLibraryWork, plan.k);
  if (!by_library) {
    TENSORD_ASSIGN_OR_RETURN(const Dense a, Bring(x1, compute, context));
    TENSORD_ASSIGN_OR_RETURN(const Dense b, Bring(x2, compute, context));
    return ByTiles(plan_of(a.view, b.view), compute, bias_view, out, context);
  }
  Dense a{x1, std::nullopt};
  Dense b{x2, std::nullopt};
  if (x1.dtype != compute || !plan.a.plain()) {
    TENSORD_ASSIGN_OR_RETURN(a, ToDense(x1, compute, context));
  }
  if (x2.dtype != compute || !plan.b.plain()) {
    TENSORD_ASSIGN_OR_RETURN(b, ToDense(x2, compute, context));
  }
  if (attributes.precision == Precision::kFloat32) return ByLibrary(plan_of(a.view, b.view), bias_view, out, context);
  // Who asks for less is given TF32, which bfloat16 is coarser than, too.
  DeviceTraits relaxed = context.traits;
  relaxed.allow_tf32 = true;
  Context with_tf32{context.scratch, context.stream_id, context.stream, relaxed, context.report, context.blas};
  return ByLibrary(plan_of(a.view, b.view), bias_view, out, with_tf32);
}

}  // namespace tensord::cuda
