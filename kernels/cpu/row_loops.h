// The inner loops of softmax and of normalisations, for the machine's instruction set.
//
// Tensors are contiguous float16, bfloat16, float32 or float64; the first three compute in float32, float64 in itself
// ("compute type"). Thread safe.
#pragma once

#include <cstdint>

#include "kernels/core/dtype.h"

namespace tensord::cpu {

// Columns that the column loops take at once.
inline constexpr int64_t kColumnTile = 256;

struct RowLoops {
  // Rows of n elements, n > 0. `log`: the logarithm of softmax.
  using SoftmaxRows = void (*)(const void* x, void* out, int64_t rows, int64_t n, bool log);
  // Softmax along columns: n elements `stride` apart, for `width` (at most kColumnTile) neighbours.
  using SoftmaxColumns = void (*)(const void* x, void* out, int64_t n, int64_t stride, int64_t width, bool log);
  // Every row of n elements normalised. weight and bias: n of the compute type, or null.
  using LayerNorm = void (*)(const void* x, void* out, int64_t rows, int64_t n, const void* weight, const void* bias,
                             double epsilon);
  // out = (x - mean) * scale + bias, all of the compute type: one of each for a row, or one for each column.
  using Affine = void (*)(const void* x, void* out, int64_t rows, int64_t n, const void* mean, const void* scale,
                          const void* bias);

  SoftmaxRows softmax_rows = nullptr;
  SoftmaxColumns softmax_columns = nullptr;
  LayerNorm layer_norm = nullptr;
  Affine affine_row = nullptr;  // `rows` is 1
  Affine affine_columns = nullptr;
};

// The loops for a dtype that is real.
const RowLoops& GetRowLoops(Dtype dtype);

struct RowTable {
  RowLoops dtypes[kDtypeCount];
};

}  // namespace tensord::cpu
