#include "kernels/cuda/layout_copy.h"

#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/layout.h"

namespace tensord::cuda {
namespace {

// A copy over collapsed dimensions. Strides in units of `item` bytes.
struct Plan {
  const char* from = nullptr;
  char* to = nullptr;
  Dims sizes;
  Dims strides[2];  // from, to
  int64_t item = 0;

  size_t rank() const { return sizes.size(); }
  int64_t elements() const { return NumElements(sizes); }
};

// Joins pairs of elements that lie side by side on both sides into one of twice the size, as often as it goes.
void Widen(Plan& plan) {
  constexpr int64_t kWidest = 16;
  const size_t last = plan.rank() - 1;
  const auto even = [](int64_t v) { return v % 2 == 0; };
  while (plan.item < kWidest) {
    const auto twice = static_cast<size_t>(2 * plan.item);
    if (plan.strides[0][last] != 1 || plan.strides[1][last] != 1 || !even(plan.sizes[last])) return;
    if (!IsAligned(plan.from, twice) || !IsAligned(plan.to, twice)) return;
    for (const Dims& s : plan.strides) {
      if (!std::all_of(s.begin(), s.end() - 1, even)) return;
    }
    for (Dims& s : plan.strides) {
      for (size_t d = 0; d < last; ++d) s[d] /= 2;
    }
    plan.sizes[last] /= 2;
    plan.item *= 2;
  }
}

// The dimension whose neighbours lie side by side in `from`, where the last one's do not but do in `to`; both long
// enough for tiles.
std::optional<size_t> RowsOfTranspose(const Plan& plan) {
  constexpr int64_t kShortest = 8;
  const size_t last = plan.rank() - 1;
  if (plan.item > 8 || plan.strides[1][last] != 1 || plan.strides[0][last] == 0 || plan.sizes[last] < kShortest)
    return {};
  if (plan.strides[0][last] == 1) return {};
  for (size_t d = last; d-- > 0;) {
    if (plan.strides[0][d] == 1 && plan.sizes[d] >= kShortest) return d;
  }
  return {};
}

cudaError_t Transpose(const Plan& plan, size_t row_dimension, Context& context) {
  TransposeCopy copy{};
  const size_t last = plan.rank() - 1;
  copy.from = plan.from;
  copy.to = plan.to;
  copy.item = static_cast<int32_t>(plan.item);
  copy.rows = plan.sizes[row_dimension];
  copy.columns = plan.sizes[last];
  copy.from_column_stride = plan.strides[0][last];
  copy.to_row_stride = plan.strides[1][row_dimension];
  copy.row_tiles = (copy.rows + kTransposeTile - 1) / kTransposeTile;
  copy.column_tiles = (copy.columns + kTransposeTile - 1) / kTransposeTile;
  copy.tiles = copy.row_tiles * copy.column_tiles;
  for (size_t d = 0; d < last; ++d) {
    if (d == row_dimension) continue;
    copy.sizes[copy.rank] = plan.sizes[d];
    copy.from_strides[copy.rank] = plan.strides[0][d];
    copy.to_strides[copy.rank] = plan.strides[1][d];
    copy.tiles *= plan.sizes[d];
    ++copy.rank;
  }
  constexpr int kThreads = kTransposeTile * kTransposeRows;
  return LaunchTransposeCopy(copy, GridFor(copy.tiles * kThreads, kThreads, context.traits), context.stream);
}

cudaError_t Strided(const Plan& plan, Context& context) {
  StridedCopy copy{};
  copy.from = plan.from;
  copy.to = plan.to;
  copy.item = static_cast<int32_t>(plan.item);
  copy.elements = plan.elements();
  copy.rank = static_cast<int32_t>(plan.rank());
  std::copy(plan.sizes.begin(), plan.sizes.end(), copy.sizes);
  std::copy(plan.strides[0].begin(), plan.strides[0].end(), copy.from_strides);
  std::copy(plan.strides[1].begin(), plan.strides[1].end(), copy.to_strides);
  return LaunchStridedCopy(copy, GridFor(copy.elements, kCopyThreads, context.traits), context.stream);
}

}  // namespace

absl::Status CopyBits(const TensorView& from, void* to, absl::Span<const int64_t> to_strides, Context& context) {
  if (from.elements() == 0) return absl::OkStatus();
  Plan plan;
  plan.from = from.as<const char>();
  plan.to = static_cast<char*>(to);
  plan.sizes = from.shape;
  plan.strides[0] = from.strides;
  plan.strides[1].assign(to_strides.begin(), to_strides.end());
  plan.item = static_cast<int64_t>(ItemSize(from.dtype));
  Collapse(plan.sizes, absl::MakeSpan(plan.strides));
  const bool one = plan.rank() == 1 && plan.sizes[0] == 1;
  if (one || (plan.rank() == 1 && plan.strides[0][0] == 1 && plan.strides[1][0] == 1)) {
    if (plan.from == plan.to) return absl::OkStatus();
    const auto bytes = static_cast<size_t>(plan.elements() * plan.item);
    return ToStatus(cudaMemcpyAsync(to, from.data, bytes, cudaMemcpyDeviceToDevice, context.stream), context.traits,
                    "cudaMemcpyAsync");
  }
  if (plan.rank() > kCopyDims) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "dimensions of a copy that cannot be joined")
        .With("maximum", kCopyDims)
        .With("value", plan.rank());
  }
  if (const std::optional<size_t> rows = RowsOfTranspose(plan)) {
    return ToStatus(Transpose(plan, *rows, context), context.traits, "transpose");
  }
  Widen(plan);
  return ToStatus(Strided(plan, context), context.traits, "strided copy");
}

}  // namespace tensord::cuda
