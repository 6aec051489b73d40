// A matrix product as loops: batch axes, then c (m x n) = a (m x k) · b (k x n), c contiguous.
#pragma once

#include <cstdint>

#include "kernels/core/tensor_view.h"

namespace tensord::cuda {

// One operand: matrices of rows x columns, and the stride of each axis of the batch (0 where it is repeated).
struct MatmulSide {
  const void* data = nullptr;
  Dtype dtype = Dtype::kNone;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  Dims batch;

  // How cuBLASLt sees the matrices: rows, or columns, that are dense and do not overlap; batches that go up.
  bool by_rows() const;
  bool by_columns() const;
  bool plain() const;
};

struct MatmulPlan {
  MatmulSide a;
  MatmulSide b;
  Dims batch;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;

  int64_t count() const { return NumElements(batch); }
};

// `batch` is the result's shape without the axes of its matrices. Batch axes that both operands step through as through
// one are joined; those that are only more rows of a become rows.
MatmulPlan MakeMatmulPlan(const TensorView& a, bool transpose_a, const TensorView& b, bool transpose_b,
                          const Dims& batch);

}  // namespace tensord::cuda
