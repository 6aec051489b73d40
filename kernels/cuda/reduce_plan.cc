#include "kernels/cuda/reduce_plan.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <optional>

#include "kernels/core/error.h"

namespace tensord::cuda {
namespace {

using Dimensions = absl::InlinedVector<ReduceDim, 8>;

constexpr int64_t kGroupCount = 1024;    // elements up to which an output is worth no block
constexpr int64_t kChunkLeast = 4096;    // elements of a chunk at least
constexpr int64_t kBlocksWanted = 1024;  // chunks keep this many blocks busy, and no more

constexpr int64_t Ceil(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t PowerOfTwo(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

// Joins neighbours that lie in memory as one dimension would.
void Merge(Dimensions& dims) {
  size_t last = 0;
  for (size_t i = 1; i < dims.size(); ++i) {
    ReduceDim& outer = dims[last];
    const ReduceDim& inner = dims[i];
    if (outer.stride == inner.stride * inner.size.by) {
      outer = {MakeDivisor(outer.size.by * inner.size.by), inner.stride, inner.out_stride};
    } else {
      dims[++last] = inner;
    }
  }
  if (!dims.empty()) dims.resize(last + 1);
}

size_t LaneBytes(ReduceLane lane) { return lane == ReduceLane::kFloat ? 4 : 8; }

Dtype LaneDtype(ReduceLane lane) {
  switch (lane) {
    case ReduceLane::kFloat:
      return Dtype::kFloat32;
    case ReduceLane::kDouble:
      return Dtype::kFloat64;
    case ReduceLane::kInt64:
      break;
  }
  return Dtype::kInt64;
}

absl::Status Launch(ReduceKind kind, ReduceLane lane, ReduceForm form, const ReduceParams& params, Context& context) {
  const int64_t threads = form == ReduceForm::kGroups ? params.outputs * params.width : params.tasks * kReduceThreads;
  const unsigned blocks = GridFor(threads, kReduceThreads, context.traits);
  return ToStatus(LaunchReduce(kind, lane, form, params, blocks, context.stream), context.traits, "reduce");
}

void Cut(ReduceParams& params, int64_t tasks, int64_t step, bool cut) {
  int64_t chunks = 1;
  if (cut && params.count > 0) {
    const int64_t least = std::max<int64_t>(step * 16, kChunkLeast * step / kReduceThreads);
    chunks = std::min(Ceil(params.count, least), std::max<int64_t>(1, kBlocksWanted / tasks));
  }
  params.chunk = Ceil(Ceil(std::max<int64_t>(1, params.count), chunks), step) * step;
  params.chunks = MakeDivisor(std::max<int64_t>(1, Ceil(params.count, params.chunk)));
  params.tasks = tasks * params.chunks.by;
}

}  // namespace

ReduceParams MakeReduceParams(const TensorView& input, const ReduceAttributes& attributes, bool in_order) {
  const int rank = input.rank();
  absl::InlinedVector<bool, 8> is_reduced(static_cast<size_t>(rank), attributes.all_axes);
  for (const int32_t axis : attributes.axes) is_reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  ReduceParams params;
  params.in_dtype = input.dtype;
  const char* data = input.as<const char>();
  const auto item = static_cast<int64_t>(ItemSize(input.dtype));
  Dimensions kept;
  Dimensions reduced;
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    const int64_t size = input.shape[i];
    int64_t stride = input.strides[i];
    (is_reduced[i] ? params.count : params.outputs) *= size;
    if (size <= 1) continue;
    if (is_reduced[i] && !in_order && stride < 0) {
      data += (size - 1) * stride * item;
      stride = -stride;
    }
    (is_reduced[i] ? reduced : kept).push_back({MakeDivisor(size), stride, 0});
  }
  params.in = data;
  if (!in_order) {
    std::stable_sort(reduced.begin(), reduced.end(),
                     [](const ReduceDim& a, const ReduceDim& b) { return a.stride > b.stride; });
  }
  int64_t step = 1;
  for (size_t i = kept.size(); i-- > 0;) {
    kept[i].out_stride = step;
    step *= kept[i].size.by;
  }
  Merge(kept);
  Merge(reduced);
  // Fewer than 63 axes are longer than 1, or the elements could not be counted: there is room for these two.
  if (kept.empty()) kept.push_back({MakeDivisor(1), 0, 1});
  if (reduced.empty()) reduced.push_back({});
  params.kept = static_cast<int32_t>(kept.size());
  params.reduced = static_cast<int32_t>(reduced.size());
  std::copy(kept.begin(), kept.end(), params.dims);
  std::copy(reduced.begin(), reduced.end(), params.dims + kept.size());
  return params;
}

ReduceForm PlanReduce(ReduceParams& params, bool cut) {
  params.along = params.kept - 1;
  for (int d = params.kept - 1; d >= 0; --d) {
    if (std::abs(params.dims[d].stride) < std::abs(params.dims[params.along].stride)) params.along = d;
  }
  const ReduceDim& along = params.dims[params.along];
  const int64_t inner = std::abs(params.dims[params.kept + params.reduced - 1].stride);
  if (params.outputs > 1 && params.count > 1 && std::abs(along.stride) < inner) {
    const int64_t strands = std::clamp<int64_t>(PowerOfTwo(Ceil(params.count, 16)), 1, 8);
    params.width = static_cast<int32_t>(std::min(PowerOfTwo(along.size.by), kReduceThreads / strands));
    params.across = MakeDivisor(Ceil(along.size.by, params.width));
    const int64_t tasks = params.outputs / along.size.by * params.across.by;
    Cut(params, tasks, kReduceThreads / params.width, cut);
    return ReduceForm::kColumns;
  }
  if (params.count <= kGroupCount) {
    params.width = static_cast<int32_t>(std::clamp<int64_t>(PowerOfTwo(Ceil(params.count, 4)), 1, 32));
    Cut(params, params.outputs, params.width, false);
    return ReduceForm::kGroups;
  }
  Cut(params, params.outputs, kReduceThreads, cut);
  return ReduceForm::kBlocks;
}

absl::Status Reduce(ReduceKind kind, ReduceLane lane, ReduceParams params, Context& context) {
  if (params.outputs == 0) return absl::OkStatus();
  ReduceForm form = PlanReduce(params, true);
  if (params.chunks.by == 1) return Launch(kind, lane, form, params, context);

  const int64_t partials = params.outputs * params.chunks.by;
  const bool arg = kind == ReduceKind::kArgMax;
  const size_t bytes = static_cast<size_t>(partials) * (arg ? 16 : LaneBytes(lane));
  TENSORD_ASSIGN_OR_RETURN(const Scratch scratch, Scratch::Allocate(bytes, context));
  ReduceParams first = params;
  first.partial = true;
  // Positions first: they have the larger alignment.
  first.out_positions = arg ? static_cast<int64_t*>(scratch.data()) : nullptr;
  first.out = arg ? static_cast<void*>(first.out_positions + partials) : scratch.data();
  TENSORD_RETURN_IF_ERROR(Launch(kind, lane, form, first, context));

  ReduceParams second = params;
  second.in = first.out;
  second.positions = first.out_positions;
  second.in_dtype = LaneDtype(lane);
  second.flip_in = 0;
  second.shift = nullptr;
  second.square = false;
  second.nonzero = false;
  second.count = params.chunks.by;
  second.kept = 1;
  second.reduced = 1;
  second.dims[0] = {MakeDivisor(params.outputs), 1, 1};
  second.dims[1] = {params.chunks, params.outputs, 0};
  form = PlanReduce(second, false);
  return Launch(kind, lane, form, second, context);
}

}  // namespace tensord::cuda
