#include "kernels/cpu/gemm.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/variants.h"

TENSORD_DECLARE_VARIANTS(const GemmTable& GemmLoopTable())

namespace tensord::cpu {
namespace {

constexpr int64_t kDepth = 256;                     // of a block: its panel of b stays in the first-level cache
constexpr int64_t kParallelWork = 128 * 128 * 128;  // multiply-adds below which a product stays on one thread
constexpr int64_t kSkinny = 4;                      // rows or columns for which packing does not pay

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t RoundUp(int64_t a, int64_t b) { return Ceil(a, b) * b; }

int64_t SizeOf(GemmLane lane) { return lane == GemmLane::kF32 || lane == GemmLane::kU32 ? 4 : 8; }

const void* At(const void* data, int64_t elements, int64_t size) {
  return static_cast<const char*>(data) + elements * size;
}
void* At(void* data, int64_t elements, int64_t size) { return static_cast<char*>(data) + elements * size; }

class Product {
 public:
  Product(GemmLane lane, const GemmShape& shape, const GemmMatrix& a, const GemmMatrix& b, void* c,
          int64_t c_row_stride, bool add)
      : loops_(TENSORD_CURRENT_VARIANT(GemmLoopTable)().lanes[static_cast<size_t>(lane)]),
        shape_(shape),
        a_(a),
        b_(b),
        c_(c),
        c_row_stride_(c_row_stride),
        c_column_stride_(1),
        add_(add),
        size_(SizeOf(lane)) {}

  absl::Status Run(absl::Span<const GemmOffsets> batch, Context& context) {
    const bool wide = shape_.m <= kSkinny && Streams(b_.row_stride, b_.column_stride);
    const bool tall = shape_.n <= kSkinny && Streams(a_.column_stride, a_.row_stride);
    if (wide || tall) {
      if (!wide || (tall && shape_.n < shape_.m)) Transpose();
      return RunSkinny(batch, context);
    }
    const int64_t work = shape_.m * shape_.n * shape_.k;
    if (work < kParallelWork) return RunSmall(batch, work, context);
    TENSORD_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Allocate(static_cast<size_t>(PackedSize() * size_), context));
    for (const GemmOffsets& at : batch) RunOne(at, scratch.data(), true);
    return absl::OkStatus();
  }

 private:
  // Whether a matrix can be read line by line.
  static bool Streams(int64_t row_stride, int64_t column_stride) { return row_stride == 1 || column_stride == 1; }

  // The same product, seen as the transposed one.
  void Transpose() {
    std::swap(a_, b_);
    std::swap(a_.row_stride, a_.column_stride);
    std::swap(b_.row_stride, b_.column_stride);
    std::swap(shape_.m, shape_.n);
    std::swap(c_row_stride_, c_column_stride_);
    transposed_ = !transposed_;
  }

  int64_t OffsetA(const GemmOffsets& at) const { return transposed_ ? at.b : at.a; }
  int64_t OffsetB(const GemmOffsets& at) const { return transposed_ ? at.a : at.b; }

  int64_t PackedRows() const { return RoundUp(shape_.m, loops_.panel_rows); }
  int64_t PackedColumns() const { return RoundUp(shape_.n, loops_.panel_columns); }
  int64_t PackedSize() const { return (PackedRows() + PackedColumns()) * shape_.k; }

  // Packs both operands, then multiplies block by block.
  void RunOne(const GemmOffsets& at, void* packed, bool parallel) const {
    const int64_t k = shape_.k;
    void* packed_b = At(packed, PackedRows() * k, size_);
    const int64_t panels_a = PackedRows() / loops_.panel_rows;
    const int64_t panels_b = PackedColumns() / loops_.panel_columns;
    ParallelFor(panels_a + panels_b, parallel, [&](int64_t i) {
      if (i < panels_a) {
        const int64_t row = i * loops_.panel_rows;
        loops_.pack_a(At(packed, row * k, size_), At(a_.data, OffsetA(at) + row * a_.row_stride, size_), a_.row_stride,
                      a_.column_stride, std::min(loops_.panel_rows, shape_.m - row), k);
      } else {
        const int64_t column = (i - panels_a) * loops_.panel_columns;
        loops_.pack_b(At(packed_b, column * k, size_), At(b_.data, OffsetB(at) + column * b_.column_stride, size_),
                      b_.column_stride, b_.row_stride, std::min(loops_.panel_columns, shape_.n - column), k);
      }
    });
    const int64_t block_rows = loops_.panel_rows * 16;
    const int64_t block_columns = loops_.panel_columns * 16;
    const int64_t across = Ceil(shape_.n, block_columns);
    ParallelFor(Ceil(shape_.m, block_rows) * across, parallel, [&](int64_t block) {
      const int64_t row = block / across * block_rows;
      const int64_t column = block % across * block_columns;
      MultiplyBlock(packed, packed_b, At(c_, at.c, size_), row, std::min(shape_.m, row + block_rows), column,
                    std::min(shape_.n, column + block_columns));
    });
  }

  void MultiplyBlock(const void* a, const void* b, void* c, int64_t row, int64_t row_end, int64_t column,
                     int64_t column_end) const {
    const int64_t k = shape_.k;
    for (int64_t deep = 0; deep < k; deep += kDepth) {
      const int64_t depth = std::min(kDepth, k - deep);
      for (int64_t j = column; j < column_end; j += loops_.panel_columns) {
        for (int64_t i = row; i < row_end; i += loops_.panel_rows) {
          loops_.multiply(At(a, i * k + deep * loops_.panel_rows, size_),
                          At(b, j * k + deep * loops_.panel_columns, size_), depth, At(c, i * c_row_stride_ + j, size_),
                          c_row_stride_, std::min(loops_.panel_rows, row_end - i),
                          std::min(loops_.panel_columns, column_end - j), add_ || deep > 0);
        }
      }
    }
  }

  // Products too small to share: the batch is shared instead.
  absl::Status RunSmall(absl::Span<const GemmOffsets> batch, int64_t work, Context& context) const {
    const auto count = static_cast<int64_t>(batch.size());
    const bool parallel = work * count >= kParallelWork;
    const int64_t groups = parallel ? std::min<int64_t>(count, 4 * Threads()) : 1;
    const int64_t bytes = RoundUp(PackedSize() * size_, 64);
    constexpr int64_t kOnStack = 16 * 1024;
    if (groups == 1 && bytes <= kOnStack) {
      alignas(64) char packed[kOnStack];
      for (const GemmOffsets& at : batch) RunOne(at, packed, false);
      return absl::OkStatus();
    }
    TENSORD_ASSIGN_OR_RETURN(Scratch scratch, Scratch::Allocate(static_cast<size_t>(groups * bytes), context));
    ParallelFor(groups, parallel, [&](int64_t g) {
      char* packed = static_cast<char*>(scratch.data()) + g * bytes;
      for (int64_t i = g * count / groups; i < (g + 1) * count / groups; ++i)
        RunOne(batch[static_cast<size_t>(i)], packed, false);
    });
    return absl::OkStatus();
  }

  // Few rows of a: b is read once, as it lies.
  absl::Status RunSkinny(absl::Span<const GemmOffsets> batch, Context& context) const {
    const int64_t m = shape_.m;
    const int64_t k = shape_.k;
    const auto count = static_cast<int64_t>(batch.size());
    // Rows of a that are not contiguous are copied first.
    const bool copy = a_.column_stride != 1 && k > 1;
    std::optional<Scratch> rows;
    if (copy) {
      TENSORD_ASSIGN_OR_RETURN(rows, Scratch::Allocate(static_cast<size_t>(count * m * k * size_), context));
      for (int64_t i = 0; i < count * m; ++i) {
        const GemmOffsets& at = batch[static_cast<size_t>(i / m)];
        CopyRow(At(rows->data(), i * k, size_), At(a_.data, OffsetA(at) + i % m * a_.row_stride, size_));
      }
    }
    const bool dots = b_.row_stride == 1;
    // Long pieces of rows where rows are read, so that memory is read in order.
    const int64_t per_task = std::max<int64_t>(dots ? 1 : 1024, RoundUp(kChunkElements / std::max<int64_t>(k, 1), 64));
    const int64_t across = Ceil(shape_.n, per_task);
    ParallelFor(count * across, count * shape_.n * k >= kParallelElements, [&](int64_t task) {
      const GemmOffsets& at = batch[static_cast<size_t>(task / across)];
      const int64_t column = task % across * per_task;
      const int64_t columns = std::min(per_task, shape_.n - column);
      const void* b = At(b_.data, OffsetB(at) + column * b_.column_stride, size_);
      for (int64_t i = 0; i < m; ++i) {
        const void* x = copy ? At(static_cast<const void*>(rows->data()), (task / across * m + i) * k, size_)
                             : At(a_.data, OffsetA(at) + i * a_.row_stride, size_);
        void* c = At(c_, at.c + i * c_row_stride_ + column * c_column_stride_, size_);
        if (dots) {
          loops_.dots(x, b, b_.column_stride, columns, k, c, c_column_stride_, add_);
        } else {
          loops_.rows(x, b, b_.row_stride, columns, k, c, c_column_stride_, add_);
        }
      }
    });
    return absl::OkStatus();
  }

  void CopyRow(void* to, const void* from) const {
    if (size_ == 4) {
      for (int64_t p = 0; p < shape_.k; ++p) {
        static_cast<uint32_t*>(to)[p] = static_cast<const uint32_t*>(from)[p * a_.column_stride];
      }
    } else {
      for (int64_t p = 0; p < shape_.k; ++p) {
        static_cast<uint64_t*>(to)[p] = static_cast<const uint64_t*>(from)[p * a_.column_stride];
      }
    }
  }

  const GemmLoops& loops_;
  GemmShape shape_;
  GemmMatrix a_;
  GemmMatrix b_;
  void* c_;
  int64_t c_row_stride_;
  int64_t c_column_stride_;
  const bool add_;
  const int64_t size_;
  bool transposed_ = false;
};

}  // namespace

absl::Status Gemm(GemmLane lane, const GemmShape& shape, const GemmMatrix& a, const GemmMatrix& b, void* c,
                  int64_t c_row_stride, bool add, absl::Span<const GemmOffsets> batch, Context& context) {
  if (shape.m == 0 || shape.n == 0 || batch.empty()) return absl::OkStatus();
  if (shape.k == 0) {
    const int64_t size = SizeOf(lane);
    for (const GemmOffsets& at : batch) {
      for (int64_t i = 0; i < shape.m && !add; ++i) {
        std::memset(At(c, at.c + i * c_row_stride, size), 0, static_cast<size_t>(shape.n * size));
      }
    }
    return absl::OkStatus();
  }
  return Product(lane, shape, a, b, c, c_row_stride, add).Run(batch, context);
}

}  // namespace tensord::cpu
