// Matmul: matmul and linear. float32 (and bfloat16 where the processor has it) by oneDNN, except small products;
// float64 and integers by gemm.cc.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

// Multiply-adds from which a product is oneDNN's.
constexpr int64_t kLibraryWork = 128 * 128 * 128;

// One operand: matrices of rows x columns, and the stride of each axis of the result's batch (0 where it is repeated).
struct Side {
  const void* data = nullptr;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  Dims batch;
};

Side MakeSide(const TensorView& x, bool left, bool transpose, const Dims& batch) {
  Side side;
  side.data = x.data;
  const size_t rank = x.shape.size();
  side.batch.assign(batch.size(), 0);
  if (rank == 1) {
    (left ? side.columns : side.rows) = x.shape[0];
    (left ? side.column_stride : side.row_stride) = x.strides[0];
    return side;
  }
  side.rows = x.shape[rank - 2];
  side.columns = x.shape[rank - 1];
  side.row_stride = x.strides[rank - 2];
  side.column_stride = x.strides[rank - 1];
  if (transpose) {
    std::swap(side.rows, side.columns);
    std::swap(side.row_stride, side.column_stride);
  }
  const size_t missing = batch.size() - (rank - 2);
  for (size_t i = 0; i + 2 < rank; ++i) {
    if (x.shape[i] != 1) side.batch[missing + i] = x.strides[i];
  }
  return side;
}

// A product as loops: batch axes, then c (m x n) = a (m x k) b (k x n), c contiguous.
struct Plan {
  Side a;
  Side b;
  Dims batch;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  int64_t count() const { return NumElements(batch); }
  int64_t work() const { return count() * m * n * k; }
};

// Joins batch axes that both operands step through as through one, and those that are only more rows of a.
void Collapse(Plan& plan) {
  const auto drop = [&](size_t i) {
    plan.batch.erase(plan.batch.begin() + static_cast<int64_t>(i));
    plan.a.batch.erase(plan.a.batch.begin() + static_cast<int64_t>(i));
    plan.b.batch.erase(plan.b.batch.begin() + static_cast<int64_t>(i));
  };
  for (size_t i = plan.batch.size(); i-- > 0;) {
    if (plan.batch[i] == 1) drop(i);
  }
  for (size_t i = plan.batch.size(); i-- > 1;) {
    if (plan.a.batch[i - 1] == plan.a.batch[i] * plan.batch[i] &&
        plan.b.batch[i - 1] == plan.b.batch[i] * plan.batch[i]) {
      plan.batch[i] *= plan.batch[i - 1];
      drop(i - 1);
    }
  }
  while (!plan.batch.empty() && plan.b.batch.back() == 0 &&
         (plan.m == 1 || plan.a.batch.back() == plan.a.row_stride * plan.m)) {
    if (plan.m == 1) plan.a.row_stride = plan.a.batch.back();
    plan.m *= plan.batch.back();
    drop(plan.batch.size() - 1);
  }
  plan.a.rows = plan.m;
}

std::vector<GemmOffsets> BatchOffsets(const Plan& plan) {
  std::vector<GemmOffsets> all(static_cast<size_t>(plan.count()));
  for (size_t i = 0; i < all.size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    for (size_t d = plan.batch.size(); d-- > 0;) {
      const int64_t at = rest % plan.batch[d];
      rest /= plan.batch[d];
      all[i].a += at * plan.a.batch[d];
      all[i].b += at * plan.b.batch[d];
    }
    all[i].c = static_cast<int64_t>(i) * plan.m * plan.n;
  }
  return all;
}

GemmLane LaneOf(Dtype dtype) {
  if (dtype == Dtype::kFloat32) return GemmLane::kF32;
  if (dtype == Dtype::kFloat64) return GemmLane::kF64;
  return ItemSize(dtype) == 4 ? GemmLane::kU32 : GemmLane::kU64;
}

// The dtype that products are computed in.
Dtype WorkDtype(Dtype compute) {
  switch (compute) {
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
      return Dtype::kFloat32;
    case Dtype::kInt8:
    case Dtype::kInt16:
      return Dtype::kInt32;
    case Dtype::kUint8:
    case Dtype::kUint16:
      return Dtype::kUint32;
    default:
      return compute;
  }
}

// Whether oneDNN takes a matrix as it lies: lines of unit stride that do not overlap.
bool TakenAsItLies(const Side& s) {
  const bool by_rows = (s.column_stride == 1 || s.columns == 1) && (s.rows == 1 || s.row_stride >= s.columns);
  const bool by_columns = (s.row_stride == 1 || s.rows == 1) && (s.columns == 1 || s.column_stride >= s.rows);
  bool plain = by_rows || by_columns;
  for (const int64_t stride : s.batch) plain &= stride >= 0;
  return plain;
}

// A vector has one stride; the library wants two.
DnnlMatrix ForLibrary(const Side& s, int64_t offset, int64_t batch_stride, size_t item) {
  DnnlMatrix matrix;
  matrix.data = static_cast<const char*>(s.data) + offset * static_cast<int64_t>(item);
  matrix.batch_stride = batch_stride;
  matrix.row_stride = s.row_stride;
  matrix.column_stride = s.column_stride;
  if (s.rows == 1 && s.columns == 1) {
    matrix.row_stride = matrix.column_stride = 1;
  } else if (s.rows == 1) {
    if (s.column_stride == 1)
      matrix.row_stride = s.columns;
    else
      matrix.row_stride = 1;
  } else if (s.columns == 1) {
    if (s.row_stride == 1)
      matrix.column_stride = s.rows;
    else
      matrix.column_stride = 1;
  }
  return matrix;
}

absl::Status ByLibrary(const Plan& plan, Dtype dtype, const float* bias, void* c, bool allow_bfloat16,
                       Context& context) {
  // The innermost batch axis is the library's own, unless both operands repeat there.
  const bool batched = !plan.batch.empty() && (plan.a.batch.back() != 0 || plan.b.batch.back() != 0);
  const int64_t inner = batched ? plan.batch.back() : 1;
  Plan outer = plan;
  if (batched) {
    outer.batch.pop_back();
    outer.a.batch.pop_back();
    outer.b.batch.pop_back();
  }
  const size_t item = ItemSize(dtype);
  const int64_t step = inner * plan.m * plan.n;
  const std::vector<GemmOffsets> offsets = BatchOffsets(outer);
  for (size_t i = 0; i < offsets.size(); ++i) {
    DnnlProduct product;
    product.dtype = dtype;
    product.batch = inner;
    product.m = plan.m;
    product.n = plan.n;
    product.k = plan.k;
    product.a = ForLibrary(plan.a, offsets[i].a, batched ? plan.a.batch.back() : 0, item);
    product.b = ForLibrary(plan.b, offsets[i].b, batched ? plan.b.batch.back() : 0, item);
    product.bias = bias;
    product.c = static_cast<char*>(c) + static_cast<int64_t>(i) * step * static_cast<int64_t>(item);
    product.allow_bfloat16 = allow_bfloat16;
    TENSORD_RETURN_IF_ERROR(DnnlMatmul(product, context));
  }
  return absl::OkStatus();
}

// Every row of c begins as the bias, which the product is then added to.
void FillRows(const TensorView& bias, void* c, int64_t rows) {
  const auto bytes = static_cast<size_t>(bias.bytes());
  const int64_t per_task = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, bias.elements()));
  ParallelFor((rows + per_task - 1) / per_task, rows * bias.elements() >= kParallelElements, [&](int64_t task) {
    for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) {
      std::memcpy(static_cast<char*>(c) + static_cast<size_t>(r) * bytes, bias.data, bytes);
    }
  });
}

// x in `work`, by way of `compute`, which its values are rounded to.
absl::StatusOr<Dense> Bring(const TensorView& x, Dtype compute, Dtype work, Context& context) {
  if (x.dtype == work) return Dense{x, std::nullopt};
  if (x.dtype == compute || work == compute) return ToDense(x, work, context);
  TENSORD_ASSIGN_OR_RETURN(const Dense rounded, ToDense(x, compute, context));
  return ToDense(rounded.view, work, context);
}

absl::Status ToContiguous(Dense& x, Context& context) {
  if (x.view.contiguous()) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(Dense dense, ToDense(x.view, x.view.dtype, context));
  x = std::move(dense);
  return absl::OkStatus();
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
  const bool left_vector = x1.rank() == 1;
  const bool right_vector = x2.rank() == 1;
  Dims batch = out.shape;
  batch.resize(batch.size() - (left_vector ? 0 : 1) - (right_vector ? 0 : 1));

  const auto make_plan = [&](const TensorView& a, const TensorView& b) {
    Plan plan;
    plan.batch = batch;
    plan.a = MakeSide(a, true, attributes.transpose_a && !linear, batch);
    plan.b = MakeSide(b, false, attributes.transpose_b || linear, batch);
    plan.m = plan.a.rows;
    plan.n = plan.b.columns;
    plan.k = plan.a.columns;
    Collapse(plan);
    return plan;
  };

  const int64_t work = make_plan(x1, x2).work();
  const bool library_dtype = compute == Dtype::kFloat32 || compute == Dtype::kFloat16 || compute == Dtype::kBfloat16;
  const bool by_library = kUseDnnl && library_dtype && work >= kLibraryWork;
  Dtype work_dtype = WorkDtype(compute);
  if (by_library && compute == Dtype::kBfloat16 && HasNativeBfloat16()) work_dtype = Dtype::kBfloat16;

  TENSORD_ASSIGN_OR_RETURN(Dense a, Bring(x1, compute, work_dtype, context));
  TENSORD_ASSIGN_OR_RETURN(Dense b, Bring(x2, compute, work_dtype, context));
  Plan plan = make_plan(a.view, b.view);
  if (by_library) {
    if (!TakenAsItLies(plan.a)) TENSORD_RETURN_IF_ERROR(ToContiguous(a, context));
    if (!TakenAsItLies(plan.b)) TENSORD_RETURN_IF_ERROR(ToContiguous(b, context));
    plan = make_plan(a.view, b.view);
  }

  // Narrow results are computed wide and brought down once.
  TensorView result = out;
  std::optional<Scratch> wide;
  if (work_dtype != out.dtype) {
    TENSORD_ASSIGN_OR_RETURN(wide,
                             Scratch::Allocate(static_cast<size_t>(out.elements()) * ItemSize(work_dtype), context));
    result.dtype = work_dtype;
    result.data = wide->data();
  }

  Dense bias;
  if (bias_in != nullptr) {
    TENSORD_ASSIGN_OR_RETURN(bias, Bring(*bias_in, compute, WorkDtype(compute), context));
    TENSORD_RETURN_IF_ERROR(ToContiguous(bias, context));
  }
  if (by_library) {
    TENSORD_RETURN_IF_ERROR(ByLibrary(plan, work_dtype, bias_in != nullptr ? bias.view.as<float>() : nullptr,
                                      result.data, attributes.precision == Precision::kBfloat16, context));
  } else {
    if (bias_in != nullptr) FillRows(bias.view, result.data, out.elements() / plan.n);
    const std::vector<GemmOffsets> offsets = BatchOffsets(plan);
    TENSORD_RETURN_IF_ERROR(Gemm(LaneOf(work_dtype), {plan.m, plan.n, plan.k},
                                 {plan.a.data, plan.a.row_stride, plan.a.column_stride},
                                 {plan.b.data, plan.b.row_stride, plan.b.column_stride}, result.data, plan.n,
                                 bias_in != nullptr, offsets, context));
  }
  if (work_dtype == out.dtype) return absl::OkStatus();
  return CopyStrided(result, out, context);
}

}  // namespace tensord::cpu
