#include "kernels/ops/view.h"

#include <algorithm>

#include "kernels/ops/infer_internal.h"

namespace tensord {
namespace {

// Strides of `result` over the elements of `input`, if there are any. Axes of the input that lie behind one another
// without a gap form runs; each run must be divided by whole axes of the result.
std::optional<Layout> Reshape(const Layout& input, const Dims& result) {
  Layout out{result, ContiguousStrides(result), input.offset};
  if (NumElements(input.shape) == 0) return out;
  auto next = static_cast<int64_t>(result.size()) - 1;
  size_t i = input.shape.size();
  while (i > 0) {
    // A run: axes from i - 1 down whose strides follow from the one behind.
    int64_t elements = input.shape[i - 1];
    const int64_t step = input.strides[i - 1];
    --i;
    if (elements == 1) continue;
    while (i > 0 && (input.shape[i - 1] == 1 || input.strides[i - 1] == elements * step)) {
      elements *= input.shape[i - 1];
      --i;
    }
    int64_t done = 1;
    while (next >= 0 && (done < elements || result[next] == 1)) {
      out.strides[next] = done * step;
      done *= result[next];
      --next;
    }
    if (done != elements) return std::nullopt;
  }
  return out;
}

Layout Permute(const ViewAttributes& attributes, const Layout& input) {
  Layout out{{}, {}, input.offset};
  const auto rank = static_cast<int32_t>(input.shape.size());
  for (const int32_t axis : attributes.axes) {
    const int32_t from = axis < 0 ? axis + rank : axis;
    out.shape.push_back(input.shape[from]);
    out.strides.push_back(input.strides[from]);
  }
  return out;
}

Layout Slice(const ViewAttributes& attributes, const Layout& input, const Dims& result) {
  Layout out{result, input.strides, input.offset};
  const auto rank = static_cast<int32_t>(input.shape.size());
  const bool empty = NumElements(result) == 0;
  for (size_t i = 0; i < attributes.axes.size(); ++i) {
    const int32_t axis = attributes.axes[i] < 0 ? attributes.axes[i] + rank : attributes.axes[i];
    const int64_t step = attributes.steps.empty() ? 1 : attributes.steps[i];
    const auto range = infer_internal::ResolveSlice(attributes.starts[i], attributes.stops[i], step, input.shape[axis]);
    // An empty view stays where it is, so that its offset lies in the buffer; one element needs no step, which may be
    // huge.
    if (!empty) out.offset += range.start * input.strides[axis];
    if (range.count > 1) out.strides[axis] *= step;
  }
  return out;
}

Layout Squeeze(const ViewAttributes& attributes, const Layout& input) {
  Layout out{{}, {}, input.offset};
  const auto rank = static_cast<int32_t>(input.shape.size());
  for (int32_t i = 0; i < rank; ++i) {
    const auto named = [&](int32_t axis) { return axis == i || axis + rank == i; };
    if (std::any_of(attributes.axes.begin(), attributes.axes.end(), named)) continue;
    out.shape.push_back(input.shape[i]);
    out.strides.push_back(input.strides[i]);
  }
  return out;
}

Layout Unsqueeze(const ViewAttributes& attributes, const Layout& input, const Dims& result) {
  Layout out{result, Dims(result.size(), 1), input.offset};
  const auto rank = static_cast<int32_t>(result.size());
  size_t next = input.shape.size();
  for (int32_t i = rank; i-- > 0;) {
    const auto named = [&](int32_t axis) { return axis == i || axis + rank == i; };
    if (std::any_of(attributes.axes.begin(), attributes.axes.end(), named)) {
      // The stride of an axis of size 1 is never used; this one is what a contiguous tensor would have.
      out.strides[i] = i + 1 < rank ? out.strides[i + 1] * std::max<int64_t>(result[i + 1], 1) : 1;
    } else {
      out.strides[i] = input.strides[--next];
    }
  }
  return out;
}

Layout Expand(const Layout& input, const Dims& result) {
  Layout out{result, Dims(result.size(), 0), input.offset};
  const size_t added = result.size() - input.shape.size();
  for (size_t i = added; i < result.size(); ++i) {
    if (input.shape[i - added] == result[i]) out.strides[i] = input.strides[i - added];
  }
  return out;
}

Layout Diagonal(const ViewAttributes& attributes, const Layout& input, const Dims& result) {
  const auto rank = static_cast<int32_t>(input.shape.size());
  int32_t first = rank - 2;
  int32_t second = rank - 1;
  if (!attributes.axes.empty()) {
    first = attributes.axes[0] < 0 ? attributes.axes[0] + rank : attributes.axes[0];
    second = attributes.axes[1] < 0 ? attributes.axes[1] + rank : attributes.axes[1];
  }
  Layout out{result, {}, input.offset};
  for (int32_t i = 0; i < rank; ++i) {
    if (i != first && i != second) out.strides.push_back(input.strides[i]);
  }
  out.strides.push_back(input.strides[first] + input.strides[second]);
  if (NumElements(result) > 0) {  // an empty view stays where it is
    const int64_t d = attributes.diagonal;
    out.offset += d >= 0 ? d * input.strides[second] : -d * input.strides[first];
  }
  return out;
}

}  // namespace

std::optional<Layout> ViewLayout(const Instruction& instruction, const Layout& input, const Dims& result) {
  const auto& attributes = AttributesAs<ViewAttributes>(instruction.attributes);
  switch (instruction.op) {
    case Op::kReshape:
    case Op::kFlatten:
      return Reshape(input, result);
    case Op::kPermute:
      return Permute(attributes, input);
    case Op::kSlice:
      return Slice(attributes, input, result);
    case Op::kSqueeze:
      return Squeeze(attributes, input);
    case Op::kUnsqueeze:
      return Unsqueeze(attributes, input, result);
    case Op::kExpand:
      return Expand(input, result);
    case Op::kDiagonal:
      return Diagonal(attributes, input, result);
    default:
      return std::nullopt;
  }
}

}  // namespace tensord
