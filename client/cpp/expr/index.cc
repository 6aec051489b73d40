#include "client/cpp/expr/index.h"

#include <algorithm>
#include <utility>

#include "client/cpp/expr/arguments.h"
#include "client/cpp/expr/create.h"

namespace tensord::expr {
namespace {

absl::Status BadPart(const Value& part, std::string_view allowed) {
  return Error(Reason::kAttributeInvalid)
      .With("op", "index")
      .With("attribute", "an index")
      .With("value", BriefText(part))
      .With("allowed", allowed);
}

absl::Status OutOfRange(int64_t index, int64_t axis, int64_t size) {
  return Error(Reason::kIndexOutOfRange).With("op", "index").With("index", index).With("axis", axis).With("size", size);
}

// Python's slice.indices(): where it starts and stops for this size. A reversed slice may stop before the first
// element, at -1.
struct Range {
  int64_t start, stop, step;
  int64_t count() const {
    if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
    return start > stop ? (start - stop - 1) / -step + 1 : 0;
  }
};
Range Resolve(const SliceValue& slice, int64_t size) {
  const int64_t step = slice.step.value_or(1);
  const int64_t low = step > 0 ? 0 : -1;
  const int64_t high = step > 0 ? size : size - 1;
  const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
    if (!at) return otherwise;
    if (*at < 0) return std::max(*at < -size ? low : *at + size, low);
    return std::min(*at, high);
  };
  return {place(slice.start, step > 0 ? low : high), place(slice.stop, step > 0 ? high : low), step};
}

// A tensor index, or empty. A list becomes a constant beside the indexed tensor.
absl::StatusOr<TensorPtr> IndexArray(Env& env, const TensorPtr& tensor, const Value& part) {
  TensorPtr array;
  if (const TensorPtr* given = part.As<TensorPtr>()) {
    array = *given;
  } else {
    const ListPtr& list = *part.As<ListPtr>();
    const bool masks = std::any_of(list->items.begin(), list->items.end(), [](const Value& v) { return v.Is<bool>(); });
    if (masks) return env.NotOffered("indexing with a boolean mask (where selects by a condition)");
    const Dtype dtype = list->items.empty() ? Dtype::kInt64 : Dtype::kNone;
    TENSORD_ASSIGN_OR_RETURN(array, MakeConstant(env, part, dtype, tensor->spec.device.ToString()));
  }
  if (array->spec.type.dtype == Dtype::kBool)
    return env.NotOffered("indexing with a boolean mask (where selects by a condition)");
  if (!IsInteger(array->spec.type.dtype)) return BadPart(Value(array), "a tensor of integers");
  return array;
}

struct Plan {
  ViewAttributes slice;        // slices, and integers as slices of one
  Axes dropped;                // axes of integers
  std::vector<int32_t> added;  // where new axes go in the result
  TensorPtr array;
  int32_t array_axis = 0;
};

absl::StatusOr<Plan> MakePlan(Env& env, const TensorPtr& tensor, const std::vector<Value>& parts) {
  const Dims& shape = tensor->spec.type.shape;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t named = 0;
  int64_t ellipses = 0;
  for (const Value& part : parts) {
    if (part.Is<Ellipsis>()) ++ellipses;
    if (!part.Is<Ellipsis>() && !part.Is<None>()) ++named;
  }
  if (ellipses > 1) return BadPart(Value(Ellipsis{}), "one ... at most");
  if (named > rank) {
    return Error(Reason::kAxisInvalid)
        .With("op", "index")
        .With("axis", named - 1)
        .With("rank", rank)
        .With("why", StrCat(named, " indices"));
  }
  Plan plan;
  int32_t axis = 0;    // of the tensor
  int32_t result = 0;  // of the result
  for (const Value& part : parts) {
    if (part.Is<Ellipsis>()) {
      axis += static_cast<int32_t>(rank - named);
      result += static_cast<int32_t>(rank - named);
      continue;
    }
    if (part.Is<None>()) {
      plan.added.push_back(result++);
      continue;
    }
    const int64_t size = shape[static_cast<size_t>(axis)];
    if (const SliceValue* slice = part.As<SliceValue>()) {
      if (slice->step && (*slice->step == 0 || *slice->step == INT64_MIN))
        return BadPart(Value(*slice->step), "a step that is not 0");
      const Range range = Resolve(*slice, size);
      if (range.count() != size || range.step != 1) {
        plan.slice.axes.push_back(axis);
        plan.slice.starts.push_back(range.count() == 0 ? 0 : range.start);
        plan.slice.stops.push_back(range.count() == 0 ? 0 : range.stop < 0 ? -size - 1 : range.stop);
        plan.slice.steps.push_back(range.count() == 0 ? 1 : range.step);
      }
      ++result;
    } else if (const std::optional<int64_t> index = ToInteger(part)) {
      if (*index < -size || *index >= size) return OutOfRange(*index, axis, size);
      const int64_t at = *index < 0 ? *index + size : *index;
      plan.slice.axes.push_back(axis);
      plan.slice.starts.push_back(at);
      plan.slice.stops.push_back(at + 1);
      plan.slice.steps.push_back(1);
      plan.dropped.push_back(axis);
    } else if (part.Is<TensorPtr>() || part.Is<ListPtr>()) {
      if (plan.array) return env.NotOffered("indexing with two index arrays");
      TENSORD_ASSIGN_OR_RETURN(plan.array, IndexArray(env, tensor, part));
      plan.array_axis = axis;
      result += static_cast<int32_t>(plan.array->spec.type.shape.size());
    } else if (part.Is<bool>()) {
      return env.NotOffered("indexing with a boolean mask (where selects by a condition)");
    } else {
      return BadPart(part, "an integer, a slice, ..., None, or a tensor of integers");
    }
    ++axis;
  }
  if (plan.array && !plan.dropped.empty()) {
    // NumPy moves the array's axes to the front where a slice stands between it and an integer; that is refused
    // rather than done by halves.
    const auto [first, last] = std::minmax_element(plan.dropped.begin(), plan.dropped.end());
    const int32_t begin = std::min(*first, plan.array_axis);
    const int32_t end = std::max(*last, plan.array_axis);
    if (end - begin != static_cast<int32_t>(plan.dropped.size())) {
      return env.NotOffered("an integer and an index array with a slice between them");
    }
  }
  return plan;
}

}  // namespace

absl::StatusOr<Value> IndexTensor(Env& env, const TensorPtr& tensor, const std::vector<Value>& parts) {
  TENSORD_ASSIGN_OR_RETURN(Plan plan, MakePlan(env, tensor, parts));
  TensorPtr result = tensor;
  if (!plan.slice.axes.empty()) {
    TENSORD_ASSIGN_OR_RETURN(result, env.graph->Apply(Op::kSlice, {result}, plan.slice));
  }
  if (plan.array) {
    TENSORD_ASSIGN_OR_RETURN(result,
                             env.graph->Apply(Op::kTake, {result, plan.array}, IndexAttributes{plan.array_axis}));
    const auto grown = static_cast<int32_t>(plan.array->spec.type.shape.size()) - 1;
    for (int32_t& axis : plan.dropped) {
      if (axis > plan.array_axis) axis += grown;
    }
  }
  if (!plan.dropped.empty()) {
    ViewAttributes squeeze;
    squeeze.axes = plan.dropped;
    TENSORD_ASSIGN_OR_RETURN(result, env.graph->Apply(Op::kSqueeze, {result}, squeeze));
  }
  if (!plan.added.empty()) {
    ViewAttributes unsqueeze;
    unsqueeze.axes.assign(plan.added.begin(), plan.added.end());
    TENSORD_ASSIGN_OR_RETURN(result, env.graph->Apply(Op::kUnsqueeze, {result}, unsqueeze));
  }
  return Value(std::move(result));
}

absl::StatusOr<Value> IndexList(Env& env, const Value& list, const Value& part) {
  const ListPtr* items = list.As<ListPtr>();
  const std::string* text = list.As<std::string>();
  const auto size = static_cast<int64_t>(items != nullptr ? (*items)->items.size() : text->size());
  if (const std::optional<int64_t> index = ToInteger(part)) {
    if (*index < -size || *index >= size) return OutOfRange(*index, 0, size);
    const auto at = static_cast<size_t>(*index < 0 ? *index + size : *index);
    if (items != nullptr) return (*items)->items[at];
    return Value(text->substr(at, 1));
  }
  const SliceValue* slice = part.As<SliceValue>();
  if (slice == nullptr || (slice->step && (*slice->step == 0 || *slice->step == INT64_MIN))) {
    return env.Problem(StrCat("an index of ", list.KindText(), " is an integer or a slice, not ", BriefText(part)));
  }
  const Range range = Resolve(*slice, size);
  std::vector<Value> chosen;
  std::string chosen_text;
  for (int64_t i = 0; i < range.count(); ++i) {
    const auto at = static_cast<size_t>(range.start + i * range.step);
    if (items != nullptr) chosen.push_back((*items)->items[at]);
    if (text != nullptr) chosen_text.push_back((*text)[at]);
  }
  if (text != nullptr) return Value(std::move(chosen_text));
  return MakeList(std::move(chosen), (*items)->tuple);
}

}  // namespace tensord::expr
