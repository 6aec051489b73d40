// Convolution: by oneDNN in float32 (and bfloat16 where the processor has it); float64, and more than three spatial
// axes, as products with unfolded columns.
#include <algorithm>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/dnnl.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/window.h"

namespace tensord::cpu {
namespace {

constexpr int64_t kColumnElements = 512 * 1024;  // of the unfolded columns at a time

// Columns for outputs [first, last) of one group: row (channel, tap), column output.
template <class T>
class Unfolded {
 public:
  Unfolded(const std::vector<WindowAxis>& axes, const T* x, int64_t first, int64_t last, T* to)
      : axes_(axes), x_(x), first_(first), count_(last - first), to_(to) {
    for (const WindowAxis& axis : axes_) taps_ *= axis.window;
    for (const WindowAxis& axis : axes_) space_ *= axis.in;
  }

  void FillRow(int64_t row) const {
    const T* plane = x_ + row / taps_ * space_;
    T* to = to_ + row * count_;
    absl::InlinedVector<int64_t, 4> tap(axes_.size());
    int64_t rest = row % taps_;
    for (size_t d = axes_.size(); d-- > 0;) {
      tap[d] = rest % axes_[d].window;
      rest /= axes_[d].window;
    }
    const WindowAxis& inner = axes_.back();
    int64_t begin = 0;
    int64_t end = 0;
    inner.Inside(tap.back(), &begin, &end);
    // Runs of outputs that differ on the last axis alone.
    for (int64_t i = 0; i < count_;) {
      const int64_t o = (first_ + i) % inner.out;
      const int64_t n = std::min(count_ - i, inner.out - o);
      const int64_t offset = OuterOffset((first_ + i) / inner.out, tap);
      for (int64_t j = 0; j < n; ++j) {
        const bool inside = offset >= 0 && o + j >= begin && o + j < end;
        to[i + j] = inside ? plane[offset * inner.in + inner.Place(o + j, tap.back())] : T(0);
      }
      i += n;
    }
  }

 private:
  // Row of the input that the outer axes reach, or -1 outside.
  int64_t OuterOffset(int64_t output, const absl::InlinedVector<int64_t, 4>& tap) const {
    int64_t offset = 0;
    int64_t step = 1;
    for (size_t d = axes_.size() - 1; d-- > 0;) {
      const int64_t place = axes_[d].Place(output % axes_[d].out, tap[d]);
      if (place < 0 || place >= axes_[d].in) return -1;
      offset += place * step;
      step *= axes_[d].in;
      output /= axes_[d].out;
    }
    return offset;
  }

  const std::vector<WindowAxis>& axes_;
  const T* x_;
  const int64_t first_;
  const int64_t count_;
  T* to_;
  int64_t taps_ = 1;
  int64_t space_ = 1;
};

template <class T>
absl::Status ByColumns(const std::vector<WindowAxis>& axes, int64_t groups, const TensorView& x,
                       const TensorView& weight, const T* bias, const TensorView& out, Context& context) {
  const int64_t batch = x.shape[0];
  const int64_t channels = x.shape[1] / groups;
  const int64_t outs = weight.shape[0] / groups;
  const int64_t depth = weight.elements() / weight.shape[0];  // rows of the columns: channels times taps
  const int64_t space = NumElements(absl::Span<const int64_t>(x.shape).subspan(2));
  const int64_t places = NumElements(absl::Span<const int64_t>(out.shape).subspan(2));
  const int64_t at_once = std::min(places, std::max<int64_t>(64, kColumnElements / depth));
  TENSORD_ASSIGN_OR_RETURN(const Scratch scratch,
                           Scratch::Allocate(static_cast<size_t>(at_once * depth) * sizeof(T), context));
  T* columns = static_cast<T*>(scratch.data());
  constexpr GemmLane kLane = sizeof(T) == 8 ? GemmLane::kF64 : GemmLane::kF32;
  for (int64_t bg = 0; bg < batch * groups; ++bg) {
    const T* from = x.as<const T>() + bg * channels * space;
    T* to = out.as<T>() + bg * outs * places;
    const int64_t first_out = bg % groups * outs;
    if (bias != nullptr) {
      for (int64_t o = 0; o < outs; ++o) std::fill_n(to + o * places, places, bias[first_out + o]);
    }
    for (int64_t first = 0; first < places; first += at_once) {
      const int64_t last = std::min(places, first + at_once);
      const Unfolded<T> unfolded(axes, from, first, last, columns);
      ParallelFor(depth, depth * (last - first) >= kParallelElements, [&](int64_t row) { unfolded.FillRow(row); });
      const GemmOffsets whole;
      TENSORD_RETURN_IF_ERROR(Gemm(kLane, {outs, last - first, depth},
                                   {weight.as<const T>() + first_out * depth, depth, 1}, {columns, last - first, 1},
                                   to + first, places, bias != nullptr, absl::MakeConstSpan(&whole, 1), context));
    }
  }
  return absl::OkStatus();
}

absl::Status ByLibrary(const std::vector<WindowAxis>& axes, int64_t groups, bool allow_bfloat16, const TensorView& x,
                       const TensorView& weight, const float* bias, const TensorView& out, Context& context) {
  DnnlConvolution convolution;
  convolution.dtype = x.dtype;
  convolution.x_shape = x.shape;
  convolution.weight_shape = weight.shape;
  convolution.out_shape = out.shape;
  for (const WindowAxis& axis : axes) {
    convolution.strides.push_back(axis.stride);
    convolution.dilations.push_back(axis.dilation);
    convolution.pads_begin.push_back(axis.pad_begin);
    convolution.pads_end.push_back(axis.pad_end);
  }
  convolution.groups = groups;
  convolution.x = x.data;
  convolution.weight = weight.data;
  convolution.bias = bias;
  convolution.out = out.data;
  convolution.allow_bfloat16 = allow_bfloat16;
  return DnnlConvolve(convolution, context);
}

// x in `work`, rounded to `dtype` on the way, contiguous.
absl::StatusOr<Dense> Bring(const TensorView& x, Dtype dtype, Dtype work, Context& context) {
  TENSORD_ASSIGN_OR_RETURN(Dense rounded, ToDense(x, dtype, context));
  if (dtype == work) return rounded;
  return ToDense(rounded.view, work, context);
}

}  // namespace

absl::Status RunConvolution(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<WindowAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const Dtype dtype = out.dtype;
  const TensorView& weight_in = *call.inputs[1].tensor;
  const std::vector<WindowAxis> axes =
      WindowAxes(attributes, absl::Span<const int64_t>(weight_in.shape).subspan(2), *call.inputs[0].tensor, out, false);
  const int64_t groups = std::max<int64_t>(1, attributes.groups);
  const bool by_library = kUseDnnl && dtype != Dtype::kFloat64 && axes.size() <= 3;
  const Dtype wide = dtype == Dtype::kFloat64 ? dtype : Dtype::kFloat32;
  const Dtype work = by_library && dtype == Dtype::kBfloat16 && HasNativeBfloat16() ? dtype : wide;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, Bring(*call.inputs[0].tensor, dtype, work, context));
  TENSORD_ASSIGN_OR_RETURN(const Dense weight, Bring(weight_in, dtype, work, context));
  std::optional<Dense> bias;
  if (call.inputs.size() > 2 && call.inputs[2].tensor != nullptr) {
    TENSORD_ASSIGN_OR_RETURN(bias, Bring(*call.inputs[2].tensor, dtype, wide, context));
  }
  TensorView result = out;
  std::optional<Scratch> scratch;
  if (work != dtype) {
    TENSORD_ASSIGN_OR_RETURN(scratch, Scratch::Allocate(static_cast<size_t>(out.elements()) * ItemSize(work), context));
    result.dtype = work;
    result.data = scratch->data();
  }
  if (by_library) {
    TENSORD_RETURN_IF_ERROR(ByLibrary(axes, groups, attributes.precision == Precision::kBfloat16, x.view, weight.view,
                                      bias ? bias->view.as<const float>() : nullptr, result, context));
  } else if (work == Dtype::kFloat64) {
    TENSORD_RETURN_IF_ERROR(ByColumns<double>(axes, groups, x.view, weight.view,
                                              bias ? bias->view.as<const double>() : nullptr, result, context));
  } else {
    TENSORD_RETURN_IF_ERROR(ByColumns<float>(axes, groups, x.view, weight.view,
                                             bias ? bias->view.as<const float>() : nullptr, result, context));
  }
  return work == dtype ? absl::OkStatus() : CopyStrided(result, out, context);
}

}  // namespace tensord::cpu
