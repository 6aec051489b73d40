// Join: concat and stack. Contiguous parts go in one launch for many; others are copied, or converted, straight or by
// way of scratch.
#include "kernels/cuda/join.cuh"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "kernels/core/error.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/layout_copy.h"

namespace tensord::cuda {
namespace {

// Contiguous parts on their way into rows of the output, kJoinParts at a time. Lengths are bytes until the launch.
class Batch {
 public:
  Batch(const TensorView& output, int64_t rows, int64_t pitch, Context& context) : context_(context) {
    join_.to = output.data;
    join_.rows = rows;
    join_.pitch = pitch;
  }

  absl::Status Add(const void* from, int64_t start, int64_t length) {
    if (join_.count == kJoinParts) TENSORD_RETURN_IF_ERROR(Launch());
    join_.parts[join_.count++] = {from, start, length};
    return absl::OkStatus();
  }

  // The parts' memory may be given back afterwards, in stream order.
  absl::Status Launch() {
    if (join_.count == 0) return absl::OkStatus();
    JoinRows join = join_;
    join_.count = 0;
    join.item = 16;
    while (!Divides(join)) join.item /= 2;
    join.pitch /= join.item;
    int64_t longest = 0;
    for (int32_t p = 0; p < join.count; ++p) {
      join.parts[p].start /= join.item;
      join.parts[p].length /= join.item;
      longest = std::max(longest, join.parts[p].length);
    }
    const unsigned blocks = GridFor(join.rows * longest, kJoinThreads, context_.traits);
    return ToStatus(LaunchJoin(join, blocks, context_.stream), context_.traits, "join");
  }

 private:
  static bool Divides(const JoinRows& join) {
    const auto item = static_cast<size_t>(join.item);
    if (!IsAligned(join.to, item) || join.pitch % join.item != 0) return false;
    return std::all_of(join.parts, join.parts + join.count, [&](const JoinRows::Part& p) {
      return IsAligned(p.from, item) && p.start % join.item == 0 && p.length % join.item == 0;
    });
  }

  JoinRows join_{};
  Context& context_;
};

}  // namespace

absl::Status RunJoin(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  if (out.elements() == 0) return absl::OkStatus();
  const int rank = out.rank();
  const int32_t given = AttributesAs<JoinAttributes>(*call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  const absl::Span<const int64_t> shape = out.shape;
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  const int64_t rows = NumElements(shape.first(axis));
  const int64_t inner = NumElements(shape.subspan(axis + 1));  // elements of one place along the axis
  Batch batch(out, rows, shape[axis] * inner * item, context);
  absl::InlinedVector<Scratch, 4> converted;  // until the batch is launched
  int64_t place = 0;
  for (const KernelOperand& operand : call.inputs) {
    TensorView part = *operand.tensor;
    const int64_t size = call.op == Op::kStack ? 1 : part.shape[axis];
    const int64_t start = place * inner;
    place += size;
    if (size == 0) continue;
    if (!SameBits(part.dtype, out.dtype)) {
      TENSORD_ASSIGN_OR_RETURN(Dense dense, ToDense(part, out.dtype, context));
      part = dense.view;
      if (dense.owned.has_value()) converted.push_back(*std::move(dense.owned));
    }
    if (part.contiguous()) {
      TENSORD_RETURN_IF_ERROR(batch.Add(part.data, start * item, size * inner * item));
      continue;
    }
    Dims strides = ContiguousStrides(out.shape);
    if (call.op == Op::kStack) strides.erase(strides.begin() + static_cast<std::ptrdiff_t>(axis));
    TENSORD_RETURN_IF_ERROR(CopyBits(part, out.as<char>() + start * item, strides, context));
  }
  return batch.Launch();
}

}  // namespace tensord::cuda
