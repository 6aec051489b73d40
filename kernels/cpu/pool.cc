// Pooling: max_pool and avg_pool.
#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/core/error.h"
#include "kernels/cpu/pool_loops.h"
#include "kernels/cpu/reduce_loops.h"
#include "kernels/cpu/team.h"
#include "kernels/cpu/variants.h"
#include "kernels/cpu/window.h"

TENSORD_DECLARE_VARIANTS(const PoolTable& PoolLoopTable())

namespace tensord::cpu {
namespace {

// How many elements a window has on one axis.
int64_t Count(const WindowAxis& axis, int64_t o, bool count_pads) {
  const int64_t begin = axis.Place(o, 0);
  const int64_t end = std::min(begin + axis.window, axis.in + (count_pads ? axis.pad_end : 0));
  return end - (count_pads ? begin : std::max<int64_t>(begin, 0));
}

// T is float or double; x and out are contiguous.
template <class T>
class Pool {
 public:
  Pool(const std::vector<WindowAxis>& axes, bool average, bool count_pads, const TensorView& x, const TensorView& out)
      : axes_(axes),
        inner_(axes.back()),
        average_(average),
        count_pads_(count_pads),
        x_(x.as<const T>()),
        out_(out.as<T>()),
        planes_(x.shape[0] * x.shape[1]) {
    const PoolTable& table = TENSORD_CURRENT_VARIANT(PoolLoopTable)();
    const PoolLoops& loops = sizeof(T) == 8 ? table.f64 : table.f32;
    merge_ = average ? loops.add : loops.max;
    whole_row_ = GetReduceLoops().rows[static_cast<size_t>(average ? Combine::kSum : Combine::kMax)]
                                      [static_cast<size_t>(sizeof(T) == 8 ? Lane::kF64 : Lane::kF32)];
    merge_column_ = GetReduceLoops().columns[static_cast<size_t>(average ? Combine::kSum : Combine::kMax)]
                                            [static_cast<size_t>(sizeof(T) == 8 ? Lane::kF64 : Lane::kF32)];
    for (size_t d = 0; d + 1 < axes.size(); ++d) {
      rows_ *= axes[d].out;
      reach_ *= std::min(axes[d].window, axes[d].in);
      in_rows_ *= axes[d].in;
    }
  }

  void Run() const {
    const int64_t rows = planes_ * rows_;
    const int64_t work = inner_.out * reach_ * std::min(inner_.window, inner_.in);  // of a row
    const int64_t per_task = std::max<int64_t>(1, kChunkElements / std::max<int64_t>(1, work));
    ParallelFor((rows + per_task - 1) / per_task, rows * work >= kParallelElements, [&](int64_t task) {
      std::vector<const T*> sources;
      std::vector<T> parts;
      for (int64_t r = task * per_task; r < std::min(rows, (task + 1) * per_task); ++r) Row(r, sources, parts);
    });
  }

 private:
  // One row of the result: all outputs along the last axis.
  void Row(int64_t row, std::vector<const T*>& sources, std::vector<T>& parts) const {
    T* to = out_ + row * inner_.out;
    const int64_t outer_count = FindSources(row, sources);
    // Windows wider than the row is long (global pooling) are gone through along themselves, others side by side.
    if (inner_.window > 2 * inner_.out) {
      for (int64_t o = 0; o < inner_.out; ++o) to[o] = AlongWindow(o, sources, parts);
    } else {
      std::fill_n(to, inner_.out, Nothing());
      for (const T* source : sources) {
        for (int64_t tap = 0; tap < inner_.window; ++tap) {
          int64_t first = 0;
          int64_t last = 0;
          inner_.Inside(tap, &first, &last);
          if (first < last) merge_(to + first, source + inner_.Place(first, tap), last - first, inner_.stride);
        }
      }
    }
    if (!average_) return;
    for (int64_t o = 0; o < inner_.out; ++o) {
      to[o] /= static_cast<T>(outer_count * Count(inner_, o, count_pads_));
    }
  }

  T Nothing() const { return average_ ? T(0) : -std::numeric_limits<T>::infinity(); }

  T AlongWindow(int64_t o, const std::vector<const T*>& sources, std::vector<T>& parts) const {
    int64_t first = 0;
    int64_t last = 0;
    inner_.Taps(o, &first, &last);
    const int64_t begin = inner_.Place(o, first);
    if (inner_.dilation == 1 && begin == 0 && last - first == inner_.in && Adjacent(sources)) {
      T whole = Nothing();
      whole_row_(sources[0], 0, 1, static_cast<int64_t>(sources.size()) * inner_.in, &whole);
      return whole;
    }
    if (first == last) return Nothing();
    // With dilation the taps are rows of one element each.
    parts.resize(sources.size());
    for (size_t i = 0; i < sources.size(); ++i) {
      if (inner_.dilation == 1) {
        whole_row_(sources[i] + begin, 0, 1, last - first, &parts[i]);
        continue;
      }
      parts[i] = Nothing();
      merge_column_(sources[i] + begin, inner_.dilation, last - first, 1, &parts[i]);
    }
    T result = Nothing();
    whole_row_(parts.data(), 0, 1, static_cast<int64_t>(parts.size()), &result);
    return result;
  }

  // Whether whole rows follow each other in memory.
  bool Adjacent(const std::vector<const T*>& sources) const {
    return !sources.empty() && sources.back() - sources.front() == static_cast<int64_t>(sources.size() - 1) * inner_.in;
  }

  // The rows of the input that the outer axes of the window reach; returns how many elements those axes count.
  int64_t FindSources(int64_t row, std::vector<const T*>& sources) const {
    const T* plane = x_ + row / rows_ * in_rows_ * inner_.in;
    sources.clear();
    int64_t count = 1;
    int64_t rest = row % rows_;
    for (size_t d = axes_.size() - 1; d-- > 0;) {
      if (average_) count *= Count(axes_[d], rest % axes_[d].out, count_pads_);
      rest /= axes_[d].out;
    }
    AddSources(plane, row % rows_, static_cast<int>(axes_.size()) - 2, 1, 0, sources);
    return count;
  }

  // Axis `d` and those outside it, of the outputs numbered `output`; `step` rows lie between its places, `offset` is
  // that of the axes within.
  void AddSources(const T* plane, int64_t output, int d, int64_t step, int64_t offset,
                  std::vector<const T*>& sources) const {
    if (d < 0) {
      sources.push_back(plane + offset * inner_.in);
      return;
    }
    const WindowAxis& axis = axes_[static_cast<size_t>(d)];
    int64_t first = 0;
    int64_t last = 0;
    axis.Taps(output % axis.out, &first, &last);
    for (int64_t tap = first; tap < last; ++tap) {
      AddSources(plane, output / axis.out, d - 1, step * axis.in, offset + axis.Place(output % axis.out, tap) * step,
                 sources);
    }
  }

  const std::vector<WindowAxis>& axes_;
  const WindowAxis& inner_;
  const bool average_;
  const bool count_pads_;
  const T* const x_;
  T* const out_;
  const int64_t planes_;
  int64_t rows_ = 1;     // of the result in a plane
  int64_t reach_ = 1;    // rows of the input that a window meets, at most
  int64_t in_rows_ = 1;  // of the input in a plane
  PoolLoops::Merge merge_;
  ReduceLoops::Rows whole_row_;
  ReduceLoops::Columns merge_column_;
};

}  // namespace

absl::Status RunPool(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<WindowAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const TensorView& input = *call.inputs[0].tensor;
  const std::vector<WindowAxis> axes = WindowAxes(attributes, attributes.sizes, input, out, true);
  const Dtype work = out.dtype == Dtype::kFloat64 ? Dtype::kFloat64 : Dtype::kFloat32;
  TENSORD_ASSIGN_OR_RETURN(const Dense x, ToDense(input, work, context));
  TensorView result = out;
  std::optional<Scratch> scratch;
  if (work != out.dtype) {
    TENSORD_ASSIGN_OR_RETURN(scratch, Scratch::Allocate(static_cast<size_t>(out.elements()) * ItemSize(work), context));
    result.dtype = work;
    result.data = scratch->data();
  }
  const bool average = call.op == Op::kAvgPool;
  if (work == Dtype::kFloat64) {
    Pool<double>(axes, average, attributes.count_pads, x.view, result).Run();
  } else {
    Pool<float>(axes, average, attributes.count_pads, x.view, result).Run();
  }
  return work == out.dtype ? absl::OkStatus() : CopyStrided(result, out, context);
}

}  // namespace tensord::cpu
