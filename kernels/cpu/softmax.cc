// Softmax: softmax and log_softmax along one axis.
#include <algorithm>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/row_loops.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {

absl::Status RunSoftmax(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<ReduceAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  if (out.elements() == 0) return absl::OkStatus();
  const int rank = out.rank();
  const int axis = attributes.axes.empty() ? rank - 1 : (attributes.axes[0] + rank) % rank;
  const bool log = call.op == Op::kLogSoftmax;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(*call.inputs[0].tensor, out.dtype, context));
  const absl::Span<const int64_t> shape = out.shape;
  const int64_t n = shape[static_cast<size_t>(axis)];
  const int64_t outer = NumElements(shape.first(static_cast<size_t>(axis)));
  const int64_t inner = NumElements(shape.subspan(static_cast<size_t>(axis) + 1));
  const RowLoops& loops = GetRowLoops(out.dtype);
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  const char* from = x.view.as<const char>();
  char* to = out.as<char>();
  const bool parallel = out.elements() >= kParallelElements;
  if (inner == 1) {
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / n);
    ParallelFor((outer + per_task - 1) / per_task, parallel, [&](int64_t task) {
      const int64_t first = task * per_task;
      loops.softmax_rows(from + first * n * item, to + first * n * item, std::min(per_task, outer - first), n, log);
    });
    return absl::OkStatus();
  }
  const int64_t across = (inner + kColumnTile - 1) / kColumnTile;
  const int64_t tiles = outer * across;
  const int64_t per_task = std::max<int64_t>(1, kChunkElements / (n * std::min(inner, kColumnTile)));
  ParallelFor((tiles + per_task - 1) / per_task, parallel, [&](int64_t task) {
    for (int64_t t = task * per_task; t < std::min(tiles, (task + 1) * per_task); ++t) {
      const int64_t column = t % across * kColumnTile;
      const int64_t offset = (t / across * n * inner + column) * item;
      loops.softmax_columns(from + offset, to + offset, n, inner, std::min(kColumnTile, inner - column), log);
    }
  });
  return absl::OkStatus();
}

}  // namespace tensord::cpu
