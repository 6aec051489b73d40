// Index: take.
#include "kernels/cuda/index.cuh"

#include <type_traits>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/layout.h"

namespace tensord::cuda {
namespace {

// Bytes of one element on their way to the host. Waits for the stream.
absl::Status Fetch(const void* device, size_t bytes, void* host, Context& context) {
  TENSORD_RETURN_IF_ERROR(ToStatus(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, context.stream),
                                   context.traits, "cudaMemcpyAsync"));
  return ToStatus(cudaStreamSynchronize(context.stream), context.traits, "cudaStreamSynchronize");
}

absl::Status OutOfRange(const KernelCall& call, const TensorView& indices, int64_t at, int64_t axis, int64_t size,
                        Context& context) {
  const size_t item = ItemSize(indices.dtype);
  alignas(8) char bytes[8] = {};
  TENSORD_RETURN_IF_ERROR(Fetch(indices.as<char>() + at * static_cast<int64_t>(item), item, bytes, context));
  Error error = Error(Reason::kIndexOutOfRange).With("op", RowOf(call.op).name);
  VisitDtype(indices.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) error.With("index", *reinterpret_cast<const T*>(bytes));
  });
  error.With("axis", axis).With("size", size);
  return error;
}

// The dimensions [first, last) of x as one, where they can be.
struct Run {
  int64_t size = 1;
  int64_t stride = 0;
  bool one = false;
};
Run Joined(const TensorView& x, size_t first, size_t last) {
  Dims shape(x.shape.begin() + static_cast<std::ptrdiff_t>(first), x.shape.begin() + static_cast<std::ptrdiff_t>(last));
  Dims strides(x.strides.begin() + static_cast<std::ptrdiff_t>(first),
               x.strides.begin() + static_cast<std::ptrdiff_t>(last));
  Collapse(shape, absl::MakeSpan(&strides, 1));
  return {shape[0], strides[0], shape.size() == 1};
}

absl::Status LaunchTakeOf(const TensorView& given, const TensorView& out, const int64_t* places, int64_t count,
                          size_t axis, Context& context) {
  Dense dense{given, std::nullopt};
  const auto rank = static_cast<size_t>(given.rank());
  Run outer = Joined(given, 0, axis);
  Run inner = Joined(given, axis + 1, rank);
  if (!outer.one || !inner.one || (inner.size != 1 && inner.stride != 1)) {
    TENSORD_ASSIGN_OR_RETURN(dense, ToDense(given, out.dtype, context));
    outer = Joined(dense.view, 0, axis);
    inner = Joined(dense.view, axis + 1, rank);
  }
  TakeUnits take{};
  take.from = dense.view.data;
  take.to = out.data;
  take.places = places;
  take.outer = outer.size;
  take.count = count;
  // Everything in bytes, then in the widest unit that divides it.
  const auto item = static_cast<int64_t>(ItemSize(out.dtype));
  take.inner = inner.size * item;
  take.outer_stride = outer.stride * item;
  take.axis_stride = dense.view.strides[axis] * item;
  take.item = 16;
  while ((take.inner | take.outer_stride | take.axis_stride) % take.item != 0 ||
         !IsAligned(take.from, static_cast<size_t>(take.item)) || !IsAligned(take.to, static_cast<size_t>(take.item))) {
    take.item /= 2;
  }
  take.inner /= take.item;
  take.outer_stride /= take.item;
  take.axis_stride /= take.item;
  const unsigned blocks = GridFor(take.outer * take.count * take.inner, kIndexThreads, context.traits);
  return ToStatus(LaunchTake(take, blocks, context.stream), context.traits, "take");
}

}  // namespace

absl::Status RunIndex(const KernelCall& call, Context& context) {
  const TensorView& out = call.outputs[0];
  const TensorView& x = *call.inputs[0].tensor;
  const int32_t given = AttributesAs<IndexAttributes>(*call.attributes).axis;
  const auto axis = static_cast<size_t>(given < 0 ? given + x.rank() : given);
  const int64_t size = x.shape[axis];
  const TensorView& raw = *call.inputs[1].tensor;
  if (raw.elements() == 0) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(const Dense indices, ToDense(raw, raw.dtype, context));
  const int64_t count = indices.view.elements();
  TENSORD_ASSIGN_OR_RETURN(const Scratch places,
                           Scratch::Allocate(static_cast<size_t>(count) * sizeof(int64_t), context));
  CheckIndices check{};
  check.indices = indices.view.data;
  check.count = count;
  check.size = size;
  check.places = static_cast<int64_t*>(places.data());
  check.report = context.report;
  check.dtype = indices.view.dtype;
  TENSORD_RETURN_IF_ERROR(
      ToStatus(LaunchCheckIndices(check, GridFor(count, kIndexThreads, context.traits), context.stream), context.traits,
               "take"));
  // The elements are on their way before the answer is known: a bad index reads element 0, and there is one.
  absl::Status taken;
  if (out.elements() > 0 && size > 0) taken = LaunchTakeOf(x, out, check.places, count, axis, context);
  absl::Status status = ToStatus(cudaStreamSynchronize(context.stream), context.traits, "cudaStreamSynchronize");
  const unsigned long long bad = std::exchange(*context.report, 0);
  if (!status.ok()) return status;
  if (bad != 0) {
    return OutOfRange(call, indices.view, static_cast<int64_t>(~bad), static_cast<int64_t>(axis), size, context);
  }
  return taken;
}

}  // namespace tensord::cuda
