// Unary, Binary, Compare, Select and cast: plans for the block executor.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cpu/block.h"
#include "kernels/cpu/families.h"
#include "kernels/cpu/loops.h"
#include "kernels/ops/op.h"

namespace tensord::cpu {
namespace {

bool IsHalf(Dtype dtype) { return dtype == Dtype::kFloat16 || dtype == Dtype::kBfloat16; }

// Strides of `view` repeated to `shape`, which it broadcasts to.
Dims BroadcastStrides(const TensorView& view, const Dims& shape) {
  Dims strides(shape.size(), 0);
  const size_t missing = shape.size() - view.shape.size();
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] != 1) strides[missing + d] = view.strides[d];
  }
  return strides;
}

// The bytes a view reaches, [first, last).
std::pair<const char*, const char*> Extent(const TensorView& view) {
  int64_t low = 0;
  int64_t high = 0;
  for (size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return {nullptr, nullptr};
    const int64_t reach = (view.shape[d] - 1) * view.strides[d];
    (reach < 0 ? low : high) += reach;
  }
  const auto item = static_cast<int64_t>(ItemSize(view.dtype));
  const auto* const data = static_cast<const char*>(view.data);
  return {data + low * item, data + (high + 1) * item};
}

// Whether writing `output` block by block would destroy elements of `input` that are still to be read.
bool Clobbers(const TensorView& output, const TensorView& input) {
  const auto [a, a_end] = Extent(output);
  const auto [b, b_end] = Extent(input);
  if (a >= b_end || b >= a_end) return false;
  return output.data != input.data || !input.contiguous() || input.elements() != output.elements() ||
         ItemSize(input.dtype) != ItemSize(output.dtype);
}

// A plan in the making: slots together with the dtype of what is in them.
class Builder {
 public:
  struct Value {
    int slot = -1;
    Dtype dtype = Dtype::kNone;
  };

  Builder(const TensorView& output, Context& context) : output_(output), context_(context), loops_(Loops()) {
    plan_.shape = output.shape;
  }

  // A tensor as it is; a scalar, or nothing, as `dtype`. All operands come before anything is computed.
  absl::StatusOr<Value> Add(const KernelOperand& operand, Dtype dtype) {
    if (operand.tensor != nullptr) return AddTensor(*operand.tensor);
    alignas(8) char bytes[8] = {};
    if (operand.scalar != nullptr) TENSORD_RETURN_IF_ERROR(StoreScalar(*operand.scalar, dtype, bytes));
    return Value{plan_.AddValue(bytes, ItemSize(dtype)), dtype};
  }

  absl::StatusOr<Value> AddTensor(const TensorView& tensor) {
    const TensorView* view = &tensor;
    if (Clobbers(output_, tensor)) {
      TensorView copy = tensor;
      copy.strides = ContiguousStrides(copy.shape);
      TENSORD_ASSIGN_OR_RETURN(Scratch memory, Scratch::Allocate(static_cast<size_t>(copy.bytes()), context_));
      copy.data = memory.data();
      TENSORD_RETURN_IF_ERROR(CopyStrided(tensor, copy, context_));
      copies_.push_back(std::move(memory));
      return Value{plan_.AddTensor(copy.data, ItemSize(copy.dtype), BroadcastStrides(copy, output_.shape)), copy.dtype};
    }
    return Value{plan_.AddTensor(view->data, ItemSize(view->dtype), BroadcastStrides(*view, output_.shape)),
                 view->dtype};
  }

  Value Convert(Value value, Dtype dtype) {
    if (value.dtype == dtype) return value;
    // Integers of one width are the same bits.
    if (IsInteger(value.dtype) && IsInteger(dtype) && ItemSize(value.dtype) == ItemSize(dtype))
      return {value.slot, dtype};
    const Loop direct = ConvertLoop(value.dtype, dtype);
    if (direct == nullptr) return Convert(Convert(value, Dtype::kFloat32), dtype);
    return {plan_.AddStep(direct, {value.slot}, ItemSize(dtype)), dtype};
  }

  // Whether the op has a loop for values of `dtype`, directly or by way of float32.
  bool Has(Op op, Dtype dtype) const {
    return OpLoop(op, dtype) != nullptr || (IsHalf(dtype) && OpLoop(op, Dtype::kFloat32) != nullptr);
  }

  // The op on values that have been brought to `dtype`; the result has that dtype too, or is bool.
  Value Apply(Op op, Dtype dtype, std::initializer_list<Value> inputs, bool makes_bool) {
    const Dtype loop_dtype = OpLoop(op, dtype) != nullptr ? dtype : Dtype::kFloat32;
    int slots[2] = {};
    size_t count = 0;
    for (const Value& input : inputs) slots[count++] = Convert(input, loop_dtype).slot;
    const Loop loop = OpLoop(op, loop_dtype);
    const Dtype result = makes_bool ? Dtype::kBool : loop_dtype;
    const int slot = count == 1 ? plan_.AddStep(loop, {slots[0]}, ItemSize(result))
                                : plan_.AddStep(loop, {slots[0], slots[1]}, ItemSize(result));
    return makes_bool ? Value{slot, result} : Convert({slot, result}, dtype);
  }

  Value Where(Value condition, Value a, Value b) {
    const Loop loop = OpLoop(Op::kWhere, a.dtype);
    return {plan_.AddStep(loop, {condition.slot, a.slot, b.slot}, ItemSize(a.dtype)), a.dtype};
  }

  void Run(Value result) {
    plan_.AddOutput(Convert(result, output_.dtype).slot, output_.data);
    RunPlan(plan_);
  }

 private:
  Loop OpLoop(Op op, Dtype dtype) const { return loops_.ops[static_cast<size_t>(op)][static_cast<size_t>(dtype)]; }
  Loop ConvertLoop(Dtype from, Dtype to) const {
    return loops_.convert[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }

  const TensorView& output_;
  Context& context_;
  const LoopTable& loops_;
  Plan plan_;
  absl::InlinedVector<Scratch, 1> copies_;
};

// The dtype the loop works in, where the caller did not say.
Dtype ComputeDtype(const KernelCall& call) {
  if (call.compute != Dtype::kNone) return call.compute;
  if (call.outputs[0].dtype != Dtype::kBool) return call.outputs[0].dtype;
  for (const KernelOperand& operand : call.inputs) {
    if (operand.tensor != nullptr) return operand.tensor->dtype;
  }
  return Dtype::kBool;
}

absl::Status Unsupported(Op op, Dtype dtype) {
  return Error(Reason::kOpUnsupported)
      .With("op", RowOf(op).name)
      .With("dtype", DtypeName(dtype))
      .With("device", "cpu")
      .With("supported", "the dtypes that ListOps names");
}

absl::Status RunWhere(const KernelCall& call, Builder& builder) {
  const Dtype dtype = call.outputs[0].dtype;
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value condition, builder.Add(call.inputs[0], Dtype::kBool));
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value a, builder.Add(call.inputs[1], dtype));
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value b, builder.Add(call.inputs[2], dtype));
  if (!builder.Has(Op::kWhere, dtype)) return Unsupported(Op::kWhere, dtype);
  const Builder::Value is_true = builder.Convert(condition, Dtype::kBool);
  const Builder::Value first = builder.Convert(a, dtype);
  const Builder::Value second = builder.Convert(b, dtype);
  builder.Run(builder.Where(is_true, first, second));
  return absl::OkStatus();
}

// max with the lower bound, then min with the upper one; a bound left out is a step left out.
absl::Status RunClip(const KernelCall& call, Dtype dtype, Builder& builder) {
  const bool low = call.inputs.size() > 1 && !call.inputs[1].absent();
  const bool high = call.inputs.size() > 2 && !call.inputs[2].absent();
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value x, builder.Add(call.inputs[0], dtype));
  Builder::Value minimum;
  Builder::Value maximum;
  if (low) {
    TENSORD_ASSIGN_OR_RETURN(minimum, builder.Add(call.inputs[1], dtype));
  }
  if (high) {
    TENSORD_ASSIGN_OR_RETURN(maximum, builder.Add(call.inputs[2], dtype));
  }
  if (!builder.Has(Op::kMaximum, dtype)) return Unsupported(Op::kClip, dtype);
  Builder::Value result = builder.Convert(x, dtype);
  if (low) result = builder.Apply(Op::kMaximum, dtype, {result, builder.Convert(minimum, dtype)}, false);
  if (high) result = builder.Apply(Op::kMinimum, dtype, {result, builder.Convert(maximum, dtype)}, false);
  builder.Run(result);
  return absl::OkStatus();
}

}  // namespace

absl::Status RunElementwise(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  if (output.elements() == 0) return absl::OkStatus();
  Builder builder(output, context);
  const Dtype dtype = ComputeDtype(call);
  switch (call.op) {
    case Op::kWhere:
      return RunWhere(call, builder);
    case Op::kClip:
      return RunClip(call, dtype, builder);
    case Op::kCast: {
      TENSORD_ASSIGN_OR_RETURN(const Builder::Value x, builder.Add(call.inputs[0], output.dtype));
      if (IsComplex(x.dtype) || IsComplex(output.dtype)) return Unsupported(call.op, x.dtype);
      builder.Run(x);
      return absl::OkStatus();
    }
    default:
      break;
  }
  if (!builder.Has(call.op, dtype)) return Unsupported(call.op, dtype);
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value first, builder.Add(call.inputs[0], dtype));
  const bool makes_bool = output.dtype == Dtype::kBool;
  if (call.inputs.size() == 1) {
    builder.Run(builder.Apply(call.op, dtype, {builder.Convert(first, dtype)}, makes_bool));
    return absl::OkStatus();
  }
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value second, builder.Add(call.inputs[1], dtype));
  const Builder::Value a = builder.Convert(first, dtype);
  const Builder::Value b = builder.Convert(second, dtype);
  builder.Run(builder.Apply(call.op, dtype, {a, b}, makes_bool));
  return absl::OkStatus();
}

absl::Status CopyStrided(const TensorView& input, const TensorView& output, Context& context) {
  if (output.elements() == 0) return absl::OkStatus();
  if (IsComplex(input.dtype) || IsComplex(output.dtype)) return Unsupported(Op::kCast, input.dtype);
  Builder builder(output, context);
  TENSORD_ASSIGN_OR_RETURN(const Builder::Value x, builder.AddTensor(input));
  builder.Run(x);
  return absl::OkStatus();
}

absl::StatusOr<Dense> ToDense(const TensorView& input, Dtype dtype, Context& context) {
  Dense dense;
  dense.view = input;
  if (input.dtype == dtype && input.contiguous()) return dense;
  dense.view.dtype = dtype;
  dense.view.strides = ContiguousStrides(input.shape);
  TENSORD_ASSIGN_OR_RETURN(Scratch memory, Scratch::Allocate(static_cast<size_t>(dense.view.bytes()), context));
  dense.view.data = memory.data();
  dense.owned = std::move(memory);
  TENSORD_RETURN_IF_ERROR(CopyStrided(input, dense.view, context));
  return dense;
}

}  // namespace tensord::cpu
