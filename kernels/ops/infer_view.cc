// Another look at the same elements.
#include <algorithm>
#include <utility>

#include "kernels/ops/infer_internal.h"

namespace tensord::infer_internal {

SliceRange ResolveSlice(int64_t start, int64_t stop, int64_t step, int64_t size) {
  const int64_t lowest = step < 0 ? -1 : 0;
  const int64_t highest = step < 0 ? size - 1 : size;
  const auto place = [&](int64_t index) {
    if (index < 0) index = index < -size ? -1 : index + size;
    return std::clamp(index, lowest, highest);
  };
  start = place(start);
  stop = place(stop);
  // Unsigned: the negation of the smallest step is no int64.
  const uint64_t stride = step < 0 ? uint64_t{0} - static_cast<uint64_t>(step) : static_cast<uint64_t>(step);
  const int64_t span = step < 0 ? start - stop : stop - start;
  if (span <= 0) return {start, 0};
  return {start, static_cast<int64_t>((static_cast<uint64_t>(span) - 1) / stride + 1)};
}

namespace {

std::string ListText(absl::Span<const int64_t> list) { return StrCat("[", StrJoin(list, ","), "]"); }

absl::StatusOr<Dims> Reshape(const Call& call, const ViewAttributes& a, const TensorType& x) {
  constexpr std::string_view kAllowed = "sizes >= 0, one of them -1 for what is left";
  const int64_t elements = x.elements();
  Dims shape = a.shape;
  int64_t known = 1;
  bool zero = false;
  bool overflow = false;
  int open = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1 && open < 0) {
      open = static_cast<int>(i);
    } else if (shape[i] < 0) {
      return AttributeInvalid(call.row, "shape", ShapeText(a.shape), kAllowed);
    } else if (shape[i] == 0) {
      zero = true;
    } else {
      overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (zero) known = 0;
  const auto mismatch = [&](std::string_view why) -> absl::Status {
    return Refuse(Reason::kShapeMismatch, call.row)
        .With("shapes", StrCat(ShapeText(x.shape), " and ", ShapeText(a.shape)))
        .Say("why", why);
  };
  if (overflow && !zero) return mismatch(StrCat("there are ", elements, " elements"));
  if (open >= 0) {
    if (known == 0) return mismatch("what is left for -1 cannot be told beside a size of 0");
    if (elements % known != 0) {
      return mismatch(StrCat(elements, " elements cannot be divided by ", known));
    }
    shape[open] = elements / known;
    known = elements;
  }
  if (known != elements) return mismatch(StrCat(elements, " elements are not ", known));
  return shape;
}

absl::StatusOr<Dims> Permute(const Call& call, const ViewAttributes& a, const TensorType& x) {
  const int rank = static_cast<int>(x.shape.size());
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(call.row.name, a.axes, rank));
  if (static_cast<int>(axes.size()) != rank) {
    return Refuse(Reason::kAxisInvalid, call.row)
        .With("axis", StrCat("[", StrJoin(a.axes, ","), "]"))
        .With("rank", rank)
        .Say("why", "every axis must be given")
        .At(FieldPath(call.row, "axes"));
  }
  Dims shape;
  for (const int32_t axis : axes) shape.push_back(x.shape[axis]);
  return shape;
}

absl::StatusOr<Dims> Slice(const Call& call, const ViewAttributes& a, const TensorType& x) {
  const size_t n = a.axes.size();
  const auto one_each = [&](std::string_view field, const Dims& list) {
    return AttributeInvalid(call.row, field, ListText(list), StrCat("one number for each of ", n, " axes"));
  };
  if (a.starts.size() != n) return one_each("starts", a.starts);
  if (a.stops.size() != n) return one_each("stops", a.stops);
  if (!a.steps.empty() && a.steps.size() != n) return one_each("steps", a.steps);
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(call.row.name, a.axes, static_cast<int>(x.shape.size())));
  Dims shape = x.shape;
  for (size_t i = 0; i < n; ++i) {
    const int64_t step = a.steps.empty() ? 1 : a.steps[i];
    if (step == 0) return AttributeInvalid(call.row, "steps", ListText(a.steps), "any number but 0");
    shape[axes[i]] = ResolveSlice(a.starts[i], a.stops[i], step, x.shape[axes[i]]).count;
  }
  return shape;
}

absl::StatusOr<Dims> Squeeze(const Call& call, const ViewAttributes& a, const TensorType& x) {
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(call.row.name, a.axes, static_cast<int>(x.shape.size())));
  Dims shape;
  for (size_t i = 0; i < x.shape.size(); ++i) {
    if (std::find(axes.begin(), axes.end(), static_cast<int32_t>(i)) == axes.end()) {
      shape.push_back(x.shape[i]);
    } else if (x.shape[i] != 1) {
      return ShapeMismatch(call.row, ShapeText(x.shape), static_cast<int64_t>(i),
                           StrCat("only a size of 1 can go, this is ", x.shape[i]));
    }
  }
  return shape;
}

absl::StatusOr<Dims> Unsqueeze(const Call& call, const ViewAttributes& a, const TensorType& x) {
  const size_t rank = x.shape.size() + a.axes.size();
  if (rank > kMaxRank) {
    return Refuse(Reason::kLimitExceeded, call.row)
        .With("limit", "max_rank")
        .With("value", rank)
        .With("maximum", kMaxRank)
        .At(FieldPath(call.row, "axes"));
  }
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(call.row.name, a.axes, static_cast<int>(rank)));
  Dims shape;
  size_t next = 0;
  for (size_t i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), static_cast<int32_t>(i)) != axes.end();
    shape.push_back(added ? 1 : x.shape[next++]);
  }
  return shape;
}

absl::StatusOr<Dims> Expand(const Call& call, const ViewAttributes& a, const TensorType& x) {
  const std::string shapes = StrCat(ShapeText(x.shape), " and ", ShapeText(a.shape));
  if (a.shape.size() < x.shape.size()) {
    return Refuse(Reason::kShapeMismatch, call.row)
        .With("shapes", shapes)
        .Say("why", StrCat("the result needs at least ", x.shape.size(), " axes"));
  }
  Dims shape = a.shape;
  const size_t added = shape.size() - x.shape.size();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < (i < added ? 0 : -1)) {
      return AttributeInvalid(call.row, "shape", ShapeText(a.shape),
                              "sizes >= 0, or -1 to keep the size of an axis that is there");
    }
    if (i < added) continue;
    const int64_t size = x.shape[i - added];
    if (shape[i] == -1) shape[i] = size;
    if (size != 1 && shape[i] != size) {
      return ShapeMismatch(call.row, shapes, static_cast<int64_t>(i),
                           StrCat("only a size of 1 can be repeated, this is ", size));
    }
  }
  return shape;
}

absl::StatusOr<Dims> Diagonal(const Call& call, const ViewAttributes& a, const TensorType& x) {
  const int rank = static_cast<int>(x.shape.size());
  static constexpr int32_t kLastTwo[] = {-2, -1};
  const absl::Span<const int32_t> given = a.axes.empty() ? absl::MakeConstSpan(kLastTwo) : absl::MakeConstSpan(a.axes);
  if (given.size() != 2) {
    return AttributeInvalid(call.row, "axes", StrCat("[", StrJoin(given, ","), "]"), "two axes, or none for the last");
  }
  TENSORD_ASSIGN_OR_RETURN(const Axes axes, NormalizeAxes(call.row.name, given, rank));
  Dims shape;
  for (int i = 0; i < rank; ++i) {
    if (i != axes[0] && i != axes[1]) shape.push_back(x.shape[i]);
  }
  const int64_t rows = x.shape[axes[0]];
  const int64_t columns = x.shape[axes[1]];
  int64_t length = 0;
  if (a.diagonal >= 0) {
    length = std::min(rows, columns > a.diagonal ? columns - a.diagonal : 0);
  } else if (a.diagonal > -rows) {
    length = std::min(rows + a.diagonal, columns);
  }
  shape.push_back(length);
  return shape;
}

absl::StatusOr<Dims> Flatten(const Call& call, const ViewAttributes& a, const TensorType& x) {
  if (!a.axes.empty() && a.axes.size() != 2) {
    return AttributeInvalid(call.row, "axes", StrCat("[", StrJoin(a.axes, ","), "]"),
                            "two axes, the first and the last, or none for all");
  }
  if (x.shape.empty()) {
    // As in PyTorch: a tensor without axes becomes one of one element; 0 and -1 name what is not there.
    for (const int32_t axis : a.axes) TENSORD_RETURN_IF_ERROR(NormalizeAxis(call.row, axis, 1, "axes").status());
    return Dims{1};
  }
  const int rank = static_cast<int>(x.shape.size());
  const int32_t asked_first = a.axes.empty() ? 0 : a.axes[0];
  const int32_t asked_last = a.axes.empty() ? -1 : a.axes[1];
  TENSORD_ASSIGN_OR_RETURN(const int first, NormalizeAxis(call.row, asked_first, rank, "axes[0]"));
  TENSORD_ASSIGN_OR_RETURN(const int last, NormalizeAxis(call.row, asked_last, rank, "axes[1]"));
  if (first > last) {
    return Refuse(Reason::kAxisInvalid, call.row)
        .With("axis", asked_first)
        .With("rank", rank)
        .Say("why", StrCat("it comes after the last one, ", asked_last))
        .At(FieldPath(call.row, "axes[0]"));
  }
  Dims shape(x.shape.begin(), x.shape.begin() + first);
  shape.push_back(NumElements(absl::MakeConstSpan(x.shape).subspan(first, last - first + 1)));
  shape.insert(shape.end(), x.shape.begin() + last + 1, x.shape.end());
  return shape;
}

absl::StatusOr<Dims> ViewShape(const Call& call, const ViewAttributes& attributes, const TensorType& x) {
  switch (call.row.op) {
    case Op::kReshape:
      return Reshape(call, attributes, x);
    case Op::kPermute:
      return Permute(call, attributes, x);
    case Op::kSlice:
      return Slice(call, attributes, x);
    case Op::kSqueeze:
      return Squeeze(call, attributes, x);
    case Op::kUnsqueeze:
      return Unsqueeze(call, attributes, x);
    case Op::kExpand:
      return Expand(call, attributes, x);
    case Op::kDiagonal:
      return Diagonal(call, attributes, x);
    case Op::kFlatten:
      return Flatten(call, attributes, x);
    default:
      return Error(Reason::kInternal).With("id", call.row.name);
  }
}

}  // namespace

absl::StatusOr<Inference> InferView(const Call& call) {
  const auto& a = call.attributes<ViewAttributes>();
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "shape", !a.shape.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "axes", !a.axes.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "starts", !a.starts.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "stops", !a.stops.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "steps", !a.steps.empty()));
  TENSORD_RETURN_IF_ERROR(CheckUnused(call.row, "diagonal", a.diagonal != 0));
  TENSORD_ASSIGN_OR_RETURN(const TensorType* x, NeedTensor(call, 0));
  TENSORD_ASSIGN_OR_RETURN(Dims shape, ViewShape(call, a, *x));
  return OneResult(call.row, x->dtype, std::move(shape), Dtype::kNone);
}

}  // namespace tensord::infer_internal
