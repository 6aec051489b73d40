// Matrix products of our own, for what oneDNN does not do (float64, integers) or does with too much ado (small
// float32).
//
// Operands may have any strides. Integers wrap. Every element of a result is summed in the order of the inner
// dimension, in blocks of fixed size, so the number of threads makes no difference. Thread safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "kernels/cpu/families.h"

namespace tensord::cpu {

// What a product computes in. Integers of both signs are unsigned here.
enum class GemmLane : uint8_t { kF32 = 0, kF64, kU32, kU64 };

// Strides in elements.
struct GemmMatrix {
  const void* data = nullptr;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
};

// One product of a batch: where its operands and its result begin, in elements.
struct GemmOffsets {
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
};

struct GemmShape {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};

// c = a b, or c += a b, for every entry of `batch`. c is row-major with `c_row_stride` elements a row. Error:
// MEMORY_EXHAUSTED.
absl::Status Gemm(GemmLane lane, const GemmShape& shape, const GemmMatrix& a, const GemmMatrix& b, void* c,
                  int64_t c_row_stride, bool add, absl::Span<const GemmOffsets> batch, Context& context);

// The loops behind it. Panels hold kRows rows of a (kColumns columns of b) side by side, padded with zeros.
struct GemmLoops {
  int64_t panel_rows = 0;
  int64_t panel_columns = 0;
  // One panel of `lines` rows (columns) with stride `line_stride`, k deep.
  using Pack = void (*)(void* panel, const void* from, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k);
  // rows x columns of c (at most a panel's) = or += product of two panels, k deep.
  using Multiply = void (*)(const void* a, const void* b, int64_t k, void* c, int64_t c_row_stride, int64_t rows,
                            int64_t columns, bool add);
  // c[j * c_stride] = or += dot product of x (contiguous) with column j of b, whose columns are contiguous.
  using Dots = void (*)(const void* x, const void* b, int64_t column_stride, int64_t columns, int64_t k, void* c,
                        int64_t c_stride, bool add);
  // c[0 … columns) = or += x (contiguous) times the rows of b, which are contiguous.
  using Rows = void (*)(const void* x, const void* b, int64_t row_stride, int64_t columns, int64_t k, void* c,
                        int64_t c_stride, bool add);
  Pack pack_a = nullptr;
  Pack pack_b = nullptr;
  Multiply multiply = nullptr;
  Dots dots = nullptr;
  Rows rows = nullptr;
};

struct GemmTable {
  GemmLoops lanes[4];
};

}  // namespace tensord::cpu
