// Index: take.
#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

// Indices as int64 in [0, size). Error: INDEX_OUT_OF_RANGE for the first that is not in [-size, size).
absl::Status Normalize(const KernelCall& call, const TensorView& indices, int64_t axis, int64_t size, int64_t* out) {
  absl::Status status;
  VisitDtype(indices.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      const T* x = indices.as<const T>();
      const int64_t n = indices.elements();
      for (int64_t i = 0; i < n; ++i) {
        bool good = true;
        if constexpr (std::is_same_v<T, uint64_t>) {
          good = x[i] < static_cast<uint64_t>(size);
          out[i] = static_cast<int64_t>(x[i]);
        } else {
          const auto index = static_cast<int64_t>(x[i]);
          good = index >= -size && index < size;
          out[i] = index < 0 ? index + size : index;
        }
        if (!good) {
          status = Error(Reason::kIndexOutOfRange)
                       .With("op", RowOf(call.op).name)
                       .With("index", x[i])
                       .With("axis", axis)
                       .With("size", size);
          return;
        }
      }
    }
  });
  return status;
}

template <class Unit>
void TakeUnits(char* to, const char* from, const int64_t* indices, int64_t count, int64_t step) {
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Unit)), from + indices[i] * step, sizeof(Unit));
}

// `count` blocks of `bytes` from the places that `indices` say, in units of `step` bytes.
void TakeBlocks(char* to, const char* from, const int64_t* indices, int64_t count, int64_t bytes, int64_t step) {
  switch (bytes) {
    case 1:
      return TakeUnits<uint8_t>(to, from, indices, count, step);
    case 2:
      return TakeUnits<uint16_t>(to, from, indices, count, step);
    case 4:
      return TakeUnits<uint32_t>(to, from, indices, count, step);
    case 8:
      return TakeUnits<uint64_t>(to, from, indices, count, step);
    default:
      for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * bytes, from + indices[i] * step, static_cast<size_t>(bytes));
      }
  }
}

// The axes behind `axis` as they lie in contiguous memory.
bool InnerContiguous(const TensorView& x, size_t axis) {
  const absl::Span<const int64_t> shape = x.shape;
  const absl::Span<const int64_t> strides = x.strides;
  return TensorView{x.dtype, Dims(shape.begin() + axis + 1, shape.end()),
                    Dims(strides.begin() + axis + 1, strides.end()), x.data}
      .contiguous();
}

}  // namespace

absl::Status RunIndex(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  const int rank = call.inputs[0].tensor->rank();
  const int32_t given = AttributesAs<IndexAttributes>(*call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
  TENSORD_ASSIGN_OR_RETURN(const Dense raw, ToDense(*call.inputs[1].tensor, call.inputs[1].tensor->dtype, context));
  const int64_t count = raw.view.elements();
  if (count == 0) return absl::OkStatus();
  const int64_t size = call.inputs[0].tensor->shape[axis];
  // Every index is checked before anything is written.
  TENSORD_ASSIGN_OR_RETURN(const Scratch places,
                           Scratch::Allocate(static_cast<size_t>(count) * sizeof(int64_t), context));
  auto* indices = static_cast<int64_t*>(places.data());
  TENSORD_RETURN_IF_ERROR(Normalize(call, raw.view, static_cast<int64_t>(axis), size, indices));
  if (out.elements() == 0) return absl::OkStatus();

  Dense dense{*call.inputs[0].tensor, std::nullopt};
  if (!InnerContiguous(dense.view, axis)) {
    TENSORD_ASSIGN_OR_RETURN(dense, ToDense(*call.inputs[0].tensor, out.dtype, context));
  }
  const TensorView& x = dense.view;
  const absl::Span<const int64_t> shape = x.shape;
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  const int64_t outer = NumElements(shape.first(axis));
  const int64_t inner = NumElements(shape.subspan(axis + 1));
  const int64_t bytes = inner * item;
  const int64_t per_task = std::max<int64_t>(1, kChunkElements / inner);
  const int64_t tasks = (count + per_task - 1) / per_task;
  ParallelFor(outer * tasks, out.elements() >= kParallelElements, [&](int64_t t) {
    int64_t rest = t / tasks;
    const char* from = x.as<const char>();
    for (size_t d = axis; d-- > 0;) {
      from += rest % shape[d] * x.strides[d] * item;
      rest /= shape[d];
    }
    const int64_t first = t % tasks * per_task;
    TakeBlocks(out.as<char>() + (t / tasks * count + first) * bytes, from, indices + first,
               std::min(per_task, count - first), bytes, x.strides[axis] * item);
  });
  return absl::OkStatus();
}

}  // namespace tensord::cpu
