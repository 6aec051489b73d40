#include "kernels/cuda/matmul_plan.h"

#include <utility>

namespace tensord::cuda {
namespace {

MatmulSide MakeSide(const TensorView& x, bool left, bool transpose, const Dims& batch) {
  MatmulSide side;
  side.data = x.data;
  side.dtype = x.dtype;
  const size_t rank = x.shape.size();
  side.batch.assign(batch.size(), 0);
  if (rank == 1) {
    // A vector is a row on the left and a column on the right.
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

void Collapse(MatmulPlan& plan) {
  const auto drop = [&](size_t i) {
    for (Dims* list : {&plan.batch, &plan.a.batch, &plan.b.batch}) list->erase(list->begin() + static_cast<int64_t>(i));
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

}  // namespace

bool MatmulSide::by_rows() const {
  return (column_stride == 1 || columns == 1) && (rows == 1 || row_stride >= columns);
}

bool MatmulSide::by_columns() const {
  return (row_stride == 1 || rows == 1) && (columns == 1 || column_stride >= rows);
}

bool MatmulSide::plain() const {
  bool plain = by_rows() || by_columns();
  for (const int64_t stride : batch) plain &= stride >= 0;
  return plain;
}

MatmulPlan MakeMatmulPlan(const TensorView& a, bool transpose_a, const TensorView& b, bool transpose_b,
                          const Dims& batch) {
  MatmulPlan plan;
  plan.batch = batch;
  plan.a = MakeSide(a, true, transpose_a, batch);
  plan.b = MakeSide(b, false, transpose_b, batch);
  plan.m = plan.a.rows;
  plan.n = plan.b.columns;
  plan.k = plan.a.columns;
  Collapse(plan);
  return plan;
}

}  // namespace tensord::cuda
