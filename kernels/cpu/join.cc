// Join: concat and stack.
#include <algorithm>
#include <cstring>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

// `count` blocks of `bytes`, contiguous in `from`, to blocks `step` bytes apart.
template <class Unit>
void CopyUnits(char* to, const char* from, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * step, from + i * static_cast<int64_t>(sizeof(Unit)), sizeof(Unit));
}

struct Pair {
  uint64_t low, high;
};

void CopyBlocks(char* to, const char* from, int64_t count, int64_t bytes, int64_t step) {
  switch (bytes) {
    case 1:
      return CopyUnits<uint8_t>(to, from, count, step);
    case 2:
      return CopyUnits<uint16_t>(to, from, count, step);
    case 4:
      return CopyUnits<uint32_t>(to, from, count, step);
    case 8:
      return CopyUnits<uint64_t>(to, from, count, step);
    case 16:
      return CopyUnits<Pair>(to, from, count, step);
    default:
      for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * step, from + i * bytes, static_cast<size_t>(bytes));
  }
}

}  // namespace

absl::Status RunJoin(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  if (out.elements() == 0) return absl::OkStatus();
  const int rank = out.rank();
  const int32_t given = AttributesAs<JoinAttributes>(*call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  const absl::Span<const int64_t> shape = out.shape;
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  const int64_t outer = NumElements(shape.first(axis));
  const int64_t inner = NumElements(shape.subspan(axis + 1));
  const int64_t step = shape[axis] * inner * item;  // bytes from one block of the result to the next
  int64_t place = 0;
  for (const KernelOperand& operand : call.inputs) {
    const TensorView& part = *operand.tensor;
    const int64_t size = call.op == Op::kStack ? 1 : part.shape[axis];
    if (size == 0) continue;
    char* to = out.as<char>() + place * inner * item;
    place += size;
    if (outer == 1) {
      // One block: converted or gathered straight into its place.
      TensorView block{out.dtype, part.shape, ContiguousStrides(part.shape), to};
      TENSORD_RETURN_IF_ERROR(CopyStrided(part, block, context));
      continue;
    }
    TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(part, out.dtype, context));
    const char* from = x.view.as<const char>();
    const int64_t bytes = size * inner * item;
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / (size * inner));
    ParallelFor((outer + per_task - 1) / per_task, outer * size * inner >= kParallelElements, [&](int64_t task) {
      const int64_t first = task * per_task;
      CopyBlocks(to + first * step, from + first * bytes, std::min(per_task, outer - first), bytes, step);
    });
  }
  return absl::OkStatus();
}

}  // namespace tensord::cpu
