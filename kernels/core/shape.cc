#include "kernels/core/shape.h"

#include "kernels/core/error.h"

namespace tensord {

int64_t NumElements(absl::Span<const int64_t> shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

Dims ContiguousStrides(absl::Span<const int64_t> shape) {
  Dims strides(shape.size(), 1);
  int64_t step = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = step;
    step *= shape[i] > 0 ? shape[i] : 1;
  }
  return strides;
}

absl::StatusOr<int64_t> CheckedBytes(Dtype dtype, absl::Span<const int64_t> shape) {
  if (shape.size() > kMaxRank) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_rank")
        .With("value", shape.size())
        .With("maximum", kMaxRank)
        .At("spec.shape");
  }
  const auto item = static_cast<int64_t>(ItemSize(dtype));
  int64_t padded = item;
  bool empty = false;
  bool overflow = false;
  for (const int64_t size : shape) {
    if (size < 0) overflow = true;
    if (size == 0) empty = true;
    if (size > 0) overflow |= __builtin_mul_overflow(padded, size, &padded);
  }
  if (overflow) {
    return Error(Reason::kShapeInvalid).With("shape", ShapeText(shape)).With("item_bytes", item).At("spec.shape");
  }
  return empty ? 0 : padded;
}

std::string ShapeText(absl::Span<const int64_t> shape) { return StrCat("[", StrJoin(shape, ","), "]"); }

std::string TensorType::ToString() const { return StrCat(DtypeName(dtype), ShapeText(shape)); }

std::string TensorSpec::ToString() const { return StrCat(type.ToString(), " on ", device.ToString()); }

}  // namespace tensord
