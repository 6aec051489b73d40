// Reduce: sum, prod, mean, max, min, any, all, argmax, argmin, var, std.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/core/error.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/isa/half_bits.h"
#include "kernels/cpu/reduce_plan.h"
#include "kernels/cpu/team.h"

namespace tensord::cpu {
namespace {

// The lane in which values of a dtype are compared.
Lane OrderLane(Dtype dtype) {
  switch (dtype) {
    case Dtype::kBool:
    case Dtype::kUint8:
      return Lane::kU8;
    case Dtype::kInt8:
    case Dtype::kInt16:
    case Dtype::kUint16:
    case Dtype::kInt32:
      return Lane::kI32;
    case Dtype::kUint32:
    case Dtype::kInt64:
      return Lane::kI64;
    case Dtype::kUint64:
      return Lane::kU64;
    case Dtype::kFloat64:
      return Lane::kF64;
    default:
      return Lane::kF32;
  }
}

// The lane in which values of a dtype are added or multiplied.
Lane ArithmeticLane(Dtype dtype, Combine combine) {
  if (dtype == Dtype::kFloat64) return Lane::kF64;
  if (IsReal(dtype)) return Lane::kF32;
  return combine == Combine::kSum && ItemSize(dtype) <= 2 ? Lane::kI32 : Lane::kI64;
}

template <class T, class A>
T Narrow(A value) {
  if constexpr (std::is_same_v<T, Half>) {
    return ToHalf(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return ToBFloat16(static_cast<float>(value));
  } else if constexpr (std::is_same_v<T, bool>) {
    return value != A(0);
  } else {
    return static_cast<T>(value);
  }
}

// Totals as the result's elements. A real total is never asked for as an integer.
template <class A>
void Store(const A* totals, const TensorView& out) {
  VisitDtype(out.dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool> && std::is_floating_point_v<A>) {
      return;
    } else {
      T* to = out.as<T>();
      const int64_t n = out.elements();
      for (int64_t i = 0; i < n; ++i) to[i] = Narrow<T>(totals[i]);
    }
  });
}

void StoreLane(Lane lane, const void* totals, const TensorView& out) {
  switch (lane) {
    case Lane::kF32:
      return Store(static_cast<const float*>(totals), out);
    case Lane::kF64:
      return Store(static_cast<const double*>(totals), out);
    case Lane::kI32:
      return Store(static_cast<const int32_t*>(totals), out);
    case Lane::kI64:
      return Store(static_cast<const int64_t*>(totals), out);
    case Lane::kU64:
      return Store(static_cast<const uint64_t*>(totals), out);
    case Lane::kU8:
      return Store(static_cast<const uint8_t*>(totals), out);
  }
}

// Totals that go straight to the result where it has their type, else through memory of their own.
class Totals {
 public:
  absl::Status Prepare(Lane lane, const TensorView& out, bool direct, Context& context) {
    lane_ = lane;
    out_ = &out;
    if (direct) {
      data_ = out.data;
      return absl::OkStatus();
    }
    const auto bytes = static_cast<size_t>(out.elements()) * LaneSize(lane);
    if (bytes <= sizeof(small_)) {
      data_ = small_;
      return absl::OkStatus();
    }
    TENSORD_ASSIGN_OR_RETURN(scratch_, Scratch::Allocate(bytes, context));
    data_ = scratch_->data();
    return absl::OkStatus();
  }
  void* data() { return data_; }
  void Finish() const {
    if (data_ != out_->data) StoreLane(lane_, data_, *out_);
  }

 private:
  Lane lane_ = Lane::kF32;
  const TensorView* out_ = nullptr;
  void* data_ = nullptr;
  std::optional<Scratch> scratch_;
  alignas(64) char small_[512];
};

// Elements are brought to the dtype they are summed in first, unless lanes do that exactly.
bool SumsAsItIs(Dtype in, Dtype out) {
  if (in == out) return true;
  return !IsReal(in) && !IsReal(out) && out != Dtype::kBool;
}

absl::Status SumOrProd(Combine combine, const TensorView& input, const ReduceAttributes& attributes,
                       const TensorView& out, Context& context) {
  Dense converted;
  const TensorView* x = &input;
  if (!SumsAsItIs(input.dtype, out.dtype)) {
    TENSORD_ASSIGN_OR_RETURN(converted, ToDense(input, out.dtype, context));
    x = &converted.view;
  }
  ReduceMeaning meaning;
  meaning.combine = combine;
  meaning.lane = ArithmeticLane(x->dtype, combine);
  const Lane total = AccumulatorOf(combine, meaning.lane);
  Totals totals;
  const bool direct = IsLane(out.dtype, total, Reading::kValue) || (out.dtype == Dtype::kUint64 && total == Lane::kI64);
  TENSORD_RETURN_IF_ERROR(totals.Prepare(total, out, direct, context));
  TENSORD_RETURN_IF_ERROR(Accumulate(MakeReducePlan(*x, attributes, false), meaning, totals.data(), context));
  totals.Finish();
  return absl::OkStatus();
}

absl::Status MaxOrMin(Combine combine, const TensorView& input, const ReduceAttributes& attributes,
                      const TensorView& out, Context& context) {
  ReduceMeaning meaning;
  meaning.combine = combine;
  meaning.lane = OrderLane(input.dtype);
  Totals totals;
  TENSORD_RETURN_IF_ERROR(totals.Prepare(meaning.lane, out, IsLane(out.dtype, meaning.lane, Reading::kValue), context));
  TENSORD_RETURN_IF_ERROR(Accumulate(MakeReducePlan(input, attributes, false), meaning, totals.data(), context));
  totals.Finish();
  return absl::OkStatus();
}

absl::Status AnyOrAll(Combine combine, const TensorView& input, const ReduceAttributes& attributes,
                      const TensorView& out, Context& context) {
  ReduceMeaning meaning;
  meaning.combine = combine;
  meaning.lane = Lane::kU8;
  meaning.reading = Reading::kNonZero;
  const ReducePlan plan = MakeReducePlan(input, attributes, false);
  if (plan.count == 0) {
    std::fill_n(out.as<bool>(), out.elements(), combine == Combine::kMin);
    return absl::OkStatus();
  }
  return Accumulate(plan, meaning, out.data, context);
}

// total / count, and what is left of it where the divisor is not positive.
template <class A>
void Divide(A* totals, int64_t n, double divisor) {
  for (int64_t i = 0; i < n; ++i) totals[i] = static_cast<A>(static_cast<double>(totals[i]) / divisor);
}

template <class A>
void SquareRoots(A* totals, int64_t n) {
  for (int64_t i = 0; i < n; ++i) totals[i] = std::sqrt(totals[i]);
}

// The mean of every output's elements, or their variance (or its root). The second pass takes the mean from every
// element, so that nothing cancels.
template <class A>
absl::Status Moments(Op op, const ReducePlan& plan, double correction, A* out, bool serial, Context& context) {
  ReduceMeaning meaning;
  meaning.lane = sizeof(A) == 8 ? Lane::kF64 : Lane::kF32;
  meaning.serial = serial;
  const int64_t n = plan.outputs;
  const auto count = static_cast<double>(plan.count);
  TENSORD_RETURN_IF_ERROR(Accumulate(plan, meaning, out, context));
  Divide(out, n, count);
  if (op == Op::kMean) return absl::OkStatus();
  TENSORD_ASSIGN_OR_RETURN(const Scratch means, Scratch::Allocate(static_cast<size_t>(n) * sizeof(A), context));
  std::copy_n(out, n, static_cast<A*>(means.data()));
  meaning.shift = means.data();
  meaning.square = true;
  TENSORD_RETURN_IF_ERROR(Accumulate(plan, meaning, out, context));
  Divide(out, n, std::max(count - correction, 0.0));
  if (op == Op::kStd) SquareRoots(out, n);
  return absl::OkStatus();
}

// Both passes over one slice after the other, where the outermost axis cuts the plan into slices that stay in the
// cache.
template <class A>
absl::Status MomentsBySlice(Op op, const ReducePlan& plan, double correction, A* out, Context& context) {
  constexpr int64_t kSliceElements = kChunkElements;
  const ReduceDim& outer = plan.kept[0];
  const int64_t inside = plan.outputs / outer.size;
  const int64_t slice = inside * plan.count;  // elements of one place on the axis
  const int64_t at_once = std::max<int64_t>(1, kSliceElements / slice);
  const int64_t tasks = (outer.size + at_once - 1) / at_once;
  std::vector<absl::Status> results(static_cast<size_t>(tasks));
  ParallelFor(tasks, true, [&](int64_t task) {
    ReducePlan part = plan;
    const int64_t first = task * at_once;
    part.kept[0].size = std::min(at_once, outer.size - first);
    part.outputs = part.kept[0].size * inside;
    part.data = plan.data + first * outer.stride * static_cast<int64_t>(ItemSize(plan.dtype));
    results[static_cast<size_t>(task)] = Moments(op, part, correction, out + first * inside, true, context);
  });
  for (const absl::Status& result : results) TENSORD_RETURN_IF_ERROR(result);
  return absl::OkStatus();
}

template <class A>
absl::Status MeanOrVar(Op op, const TensorView& x, const ReduceAttributes& attributes, const TensorView& out,
                       Context& context) {
  const ReducePlan plan = MakeReducePlan(x, attributes, false);
  Totals totals;
  TENSORD_RETURN_IF_ERROR(
      totals.Prepare(sizeof(A) == 8 ? Lane::kF64 : Lane::kF32, out, out.dtype == DtypeOf<A>, context));
  auto* sums = static_cast<A*>(totals.data());
  const int64_t elements = plan.outputs * plan.count;
  const int64_t slice = plan.outputs == 0 ? 0 : elements / plan.kept[0].size;
  const bool by_slice =
      op != Op::kMean && elements >= kParallelElements && slice <= 2 * kChunkElements && !ChooseOrder(plan).columns;
  if (by_slice) {
    TENSORD_RETURN_IF_ERROR(MomentsBySlice(op, plan, attributes.correction, sums, context));
  } else {
    TENSORD_RETURN_IF_ERROR(Moments(op, plan, attributes.correction, sums, false, context));
  }
  totals.Finish();
  return absl::OkStatus();
}

absl::Status ArgMaxOrMin(Combine combine, const TensorView& input, const ReduceAttributes& attributes,
                         const TensorView& out, Context& context) {
  ReducePlan plan = MakeReducePlan(input, attributes, true);
  Dense dense;
  if (plan.reduced.size() > 1) {
    TENSORD_ASSIGN_OR_RETURN(dense, ToDense(input, input.dtype, context));
    plan = MakeReducePlan(dense.view, attributes, true);
  }
  return FindExtremes(plan, combine, OrderLane(input.dtype), attributes.last_index, out.as<int64_t>(), context);
}

}  // namespace

absl::Status RunReduce(const KernelCall& call, Context& context) {
  const auto& attributes = AttributesAs<ReduceAttributes>(*call.attributes);
  const TensorView& out = call.outputs[0];
  const TensorView& input = *call.inputs[0].tensor;
  switch (call.op) {
    case Op::kSum:
      return SumOrProd(Combine::kSum, input, attributes, out, context);
    case Op::kProd:
      return SumOrProd(Combine::kProd, input, attributes, out, context);
    case Op::kMax:
      return MaxOrMin(Combine::kMax, input, attributes, out, context);
    case Op::kMin:
      return MaxOrMin(Combine::kMin, input, attributes, out, context);
    case Op::kAny:
      return AnyOrAll(Combine::kMax, input, attributes, out, context);
    case Op::kAll:
      return AnyOrAll(Combine::kMin, input, attributes, out, context);
    case Op::kArgMax:
      return ArgMaxOrMin(Combine::kMax, input, attributes, out, context);
    case Op::kArgMin:
      return ArgMaxOrMin(Combine::kMin, input, attributes, out, context);
    case Op::kMean:
    case Op::kVar:
    case Op::kStd: {
      Dense converted;
      const TensorView* x = &input;
      if (x->dtype != out.dtype) {
        TENSORD_ASSIGN_OR_RETURN(converted, ToDense(input, out.dtype, context));
        x = &converted.view;
      }
      if (out.dtype == Dtype::kFloat64) return MeanOrVar<double>(call.op, *x, attributes, out, context);
      return MeanOrVar<float>(call.op, *x, attributes, out, context);
    }
    default:
      return Error(Reason::kInternal).Say("id", "cpu.reduce").With("cause", RowOf(call.op).name);
  }
}

}  // namespace tensord::cpu
