// The inner loops of reductions, over tiles of rows that fit the first-level cache, for the machine's instruction set.
//
// A reduction computes in a lane type; elements of other dtypes are brought to it by `load`. Sums combine in a tree of
// fixed shape, so a result depends on neither instruction set nor threads. Thread safe.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/core/dtype.h"

namespace tensord::cpu {

enum class Lane : uint8_t { kF32 = 0, kF64, kI32, kI64, kU64, kU8 };
inline constexpr int kLanes = 6;

// How two partial results become one. Max and min keep NaN.
enum class Combine : uint8_t { kSum = 0, kProd, kMax, kMin };
inline constexpr int kCombines = 4;

// What an element is to the reduction.
enum class Reading : uint8_t {
  kValue = 0,    // itself
  kNonZero = 1,  // 1 where it is not 0 (NaN is not), else 0; lane kU8
};

// Elements of a tile at most.
inline constexpr int64_t kTile = 2048;

constexpr size_t LaneSize(Lane lane) {
  return lane == Lane::kU8 ? 1 : lane == Lane::kF32 || lane == Lane::kI32 ? 4 : 8;
}

// The lane that partial results have: int64 for a sum of int32, else the lane itself.
constexpr Lane AccumulatorOf(Combine combine, Lane lane) {
  return combine == Combine::kSum && lane == Lane::kI32 ? Lane::kI64 : lane;
}

// True where an element in memory is a lane already.
constexpr bool IsLane(Dtype dtype, Lane lane, Reading reading) {
  // A bool may lie in memory as any byte.
  if (reading == Reading::kNonZero) return false;
  switch (lane) {
    case Lane::kF32:
      return dtype == Dtype::kFloat32;
    case Lane::kF64:
      return dtype == Dtype::kFloat64;
    case Lane::kI32:
      return dtype == Dtype::kInt32;
    case Lane::kI64:
      return dtype == Dtype::kInt64;
    case Lane::kU64:
      return dtype == Dtype::kUint64;
    case Lane::kU8:
      return dtype == Dtype::kUint8;
  }
  return false;
}

// Strides are in elements. Null where a combination does not occur (see isa/reduce_loops.cc).
struct ReduceLoops {
  // out[r * n + j] = in[r * row_stride + j * stride], as lanes.
  using Load = void (*)(void* out, const void* in, int64_t rows, int64_t row_stride, int64_t n, int64_t stride);
  // out[r] = row r of n elements, combined. n at most kTile for sums of kI32.
  using Rows = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t n, void* out);
  // accumulator[j] = accumulator[j] with column j of all rows.
  using Columns = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t width, void* accumulator);
  // Columns that also remember where: an element of row r that beats best[j] sets index[j] = first + r * step. Indices
  // are int64 for lanes of 8 bytes and int32 for the others.
  using ArgColumns = void (*)(const void* x, int64_t row_stride, int64_t rows, int64_t width, int64_t first,
                              int64_t step, void* best, void* index);
  // Place of the first (last) of n elements that equals *value, or is NaN where *value is; -1 for none.
  using Find = int64_t (*)(const void* x, int64_t n, const void* value, bool last);
  // Whether *a beats *b; NaN beats all but NaN.
  using Beats = bool (*)(const void* a, const void* b);
  // x[r * n + j] -= shift[r], or shift[j].
  using Shift = void (*)(void* x, int64_t rows, int64_t n, const void* shift);
  // x[i] *= x[i].
  using Square = void (*)(void* x, int64_t n);

  Load load[kDtypeCount][kLanes] = {};
  Load load_nonzero[kDtypeCount] = {};
  Rows rows[kCombines][kLanes] = {};
  Columns columns[kCombines][kLanes] = {};
  ArgColumns arg_columns[kCombines][kLanes] = {};
  Find find[kLanes] = {};
  Beats beats[kCombines][kLanes] = {};
  Shift shift_rows[kLanes] = {};
  Shift shift_columns[kLanes] = {};
  Square square[kLanes] = {};
};

const ReduceLoops& GetReduceLoops();

}  // namespace tensord::cpu
