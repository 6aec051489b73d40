#include "kernels/cuda/layout.h"

#include <algorithm>
#include <utility>

namespace tensord::cuda {
namespace {

// The bytes a view reaches, [first, last); empty for no elements.
std::pair<const char*, const char*> Extent(const TensorView& view) {
  int64_t low = 0;
  int64_t high = 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return {nullptr, nullptr};
    const int64_t reach = (view.shape[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto item = static_cast<int64_t>(ItemSize(view.dtype));
  const char* const data = view.as<const char>();
  return {data + low * item, data + (high + 1) * item};
}

}  // namespace

Dims BroadcastStrides(const TensorView& view, absl::Span<const int64_t> shape) {
  Dims strides(shape.size(), 0);
  const size_t missing = shape.size() - view.shape.size();
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] != 1) strides[missing + d] = view.strides[d];
  }
  return strides;
}

void Collapse(Dims& shape, absl::Span<Dims> strides) {
  size_t kept = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 1) continue;
    const int64_t size = shape[d];
    const bool joins = kept > 0 && std::all_of(strides.begin(), strides.end(),
                                               [&](const Dims& s) { return s[kept - 1] == s[d] * size; });
    if (joins) {
      shape[kept - 1] *= size;
    } else {
      shape[kept++] = size;
    }
    for (Dims& s : strides) s[kept - 1] = s[d];
  }
  if (kept == 0) {
    shape.assign(1, 1);
    for (Dims& s : strides) s.assign(1, 0);
    return;
  }
  shape.resize(kept);
  for (Dims& s : strides) s.resize(kept);
}

bool IsEverywhere(absl::Span<const int64_t> strides) {
  return std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s == 0; });
}

bool Overlap(const TensorView& a, const TensorView& b) {
  const auto [first, last] = Extent(a);
  const auto [other_first, other_last] = Extent(b);
  return first < other_last && other_first < last;
}

bool Clobbers(const TensorView& output, const TensorView& input) {
  if (!Overlap(output, input)) return false;
  return output.data != input.data || !input.contiguous() || input.elements() != output.elements() ||
         ItemSize(input.dtype) != ItemSize(output.dtype);
}

bool SameBits(Dtype a, Dtype b) { return a == b || (IsInteger(a) && IsInteger(b) && ItemSize(a) == ItemSize(b)); }

}  // namespace tensord::cuda
