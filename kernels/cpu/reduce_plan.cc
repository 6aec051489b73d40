#include "kernels/cpu/reduce_plan.h"

#include <algorithm>
#include <cstdlib>

namespace tensord::cpu {
namespace {

// Joins neighbours that lie in memory as one dimension would.
void Merge(ReduceDims& dims) {
  size_t last = 0;
  for (size_t i = 1; i < dims.size(); ++i) {
    ReduceDim& outer = dims[last];
    const ReduceDim inner = dims[i];
    if (outer.stride == inner.stride * inner.size) {
      outer = {outer.size * inner.size, inner.stride, inner.out_stride};
    } else {
      dims[++last] = inner;
    }
  }
  if (!dims.empty()) dims.resize(last + 1);
}

Dtype DtypeOfLane(Lane lane) {
  switch (lane) {
    case Lane::kF32:
      return Dtype::kFloat32;
    case Lane::kF64:
      return Dtype::kFloat64;
    case Lane::kI32:
      return Dtype::kInt32;
    case Lane::kI64:
      return Dtype::kInt64;
    case Lane::kU64:
      return Dtype::kUint64;
    case Lane::kU8:
      break;
  }
  return Dtype::kUint8;
}

}  // namespace

ReducePlan MakeReducePlan(const TensorView& input, const ReduceAttributes& attributes, bool in_order) {
  const int rank = input.rank();
  absl::InlinedVector<bool, 8> is_reduced(static_cast<size_t>(rank), attributes.all_axes);
  for (const int32_t axis : attributes.axes) is_reduced[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = true;
  ReducePlan plan;
  plan.dtype = input.dtype;
  const char* data = static_cast<const char*>(input.data);
  const auto item = static_cast<int64_t>(ItemSize(input.dtype));
  for (size_t i = 0; i < static_cast<size_t>(rank); ++i) {
    const int64_t size = input.shape[i];
    int64_t stride = input.strides[i];
    (is_reduced[i] ? plan.count : plan.outputs) *= size;
    if (size == 1) continue;
    if (is_reduced[i] && !in_order && stride < 0 && size > 0) {
      data += (size - 1) * stride * item;
      stride = -stride;
    }
    (is_reduced[i] ? plan.reduced : plan.kept).push_back({size, stride, 0});
  }
  plan.data = data;
  if (!in_order) {
    std::stable_sort(plan.reduced.begin(), plan.reduced.end(),
                     [](const ReduceDim& a, const ReduceDim& b) { return a.stride > b.stride; });
  }
  int64_t step = 1;
  for (size_t i = plan.kept.size(); i-- > 0;) {
    plan.kept[i].out_stride = step;
    step *= plan.kept[i].size;
  }
  Merge(plan.reduced);
  Merge(plan.kept);
  if (plan.reduced.empty()) plan.reduced.push_back({});
  if (plan.kept.empty()) plan.kept.push_back({1, 0, 1});
  return plan;
}

ReducePlan MatrixPlan(Lane lane, const void* data, int64_t rows, int64_t columns, int axis) {
  ReducePlan plan;
  plan.dtype = DtypeOfLane(lane);
  plan.data = static_cast<const char*>(data);
  const ReduceDim down{rows, columns, 1};
  const ReduceDim across{columns, 1, 1};
  plan.kept.push_back(axis == 0 ? across : down);
  plan.reduced.push_back(axis == 0 ? down : across);
  plan.outputs = plan.kept[0].size;
  plan.count = plan.reduced[0].size;
  return plan;
}

ReduceOrder ChooseOrder(const ReducePlan& plan) {
  ReduceOrder order;
  order.along = plan.kept.size() - 1;
  for (size_t i = plan.kept.size(); i-- > 0;) {
    if (std::abs(plan.kept[i].stride) < std::abs(plan.kept[order.along].stride)) order.along = i;
  }
  const int64_t kept_stride = std::abs(plan.kept[order.along].stride);
  const int64_t reduced_stride = std::abs(plan.reduced.back().stride);
  order.columns = plan.outputs > 1 && (kept_stride < reduced_stride || plan.count == 1);
  if (!order.columns) order.along = plan.kept.size() - 1;
  return order;
}

KeptOffset OffsetOf(const ReducePlan& plan, int64_t index, size_t skip) {
  KeptOffset offset;
  for (size_t i = plan.kept.size(); i-- > 0;) {
    if (i == skip) continue;
    const ReduceDim& dim = plan.kept[i];
    const int64_t at = index % dim.size;
    index /= dim.size;
    offset.in += at * dim.stride;
    offset.out += at * dim.out_stride;
  }
  return offset;
}

}  // namespace tensord::cpu
