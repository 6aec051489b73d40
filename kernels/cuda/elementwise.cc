// Unary, Binary, Compare, Select and cast: programs of one or two instructions for the program kernel.
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/layout_copy.h"
#include "kernels/cuda/program.h"
#include "kernels/ops/op.h"

namespace tensord::cuda {
namespace {

using Value = ProgramBuilder::Value;

bool Takes(TypeRule rule, Dtype dtype) {
  if (!IsValid(dtype) || IsComplex(dtype)) return false;
  switch (rule) {
    case TypeRule::kInteger:
      return IsInteger(dtype);
    case TypeRule::kBoolOrInteger:
      return IsInteger(dtype) || dtype == Dtype::kBool;
    case TypeRule::kReal:
    case TypeRule::kRealToBool:
      return IsReal(dtype);
    case TypeRule::kNumeric:
    case TypeRule::kNumericToBool:
      return dtype != Dtype::kBool;
    default:
      return true;
  }
}

absl::Status Unsupported(Op op, Dtype dtype, const Context& context) {
  return Error(Reason::kOpUnsupported)
      .With("op", RowOf(op).name)
      .With("dtype", DtypeName(dtype))
      .With("device", context.traits.id.ToString())
      .With("supported", "the dtypes that ListOps names");
}

// The dtype the op computes in, where the caller did not say.
Dtype ComputeDtype(const KernelCall& call) {
  if (call.compute != Dtype::kNone) return call.compute;
  if (call.outputs[0].dtype != Dtype::kBool) return call.outputs[0].dtype;
  for (const KernelOperand& operand : call.inputs) {
    if (operand.tensor != nullptr) return operand.tensor->dtype;
  }
  return Dtype::kBool;
}

// A tensor, or a literal as an element of `dtype` (an operand left out is 0).
absl::StatusOr<Value> Add(const KernelOperand& operand, Dtype dtype, ProgramBuilder& program) {
  if (operand.tensor != nullptr) return program.AddTensor(*operand.tensor, dtype);
  uint64_t bits = 0;
  if (!operand.absent()) TENSORD_RETURN_IF_ERROR(StoreScalar(*operand.scalar, dtype, &bits));  // little endian
  return program.AddConstant(bits, dtype, dtype);
}

// An integer dtype of the same bytes: what only chooses between elements leaves all their bits as they are.
Dtype BitsOf(Dtype dtype) {
  switch (ItemSize(dtype)) {
    case 1:
      return Dtype::kUint8;
    case 2:
      return Dtype::kUint16;
    case 4:
      return Dtype::kInt32;
    default:
      return Dtype::kInt64;
  }
}

absl::Status RunWhere(const KernelCall& call, Context& context) {
  TensorView output = call.outputs[0];
  const Dtype dtype = output.dtype;
  if (!Takes(TypeRule::kAny, dtype)) return Unsupported(call.op, dtype, context);
  bool moves = true;
  for (const KernelOperand& operand : call.inputs.subspan(1)) {
    if (operand.tensor != nullptr && operand.tensor->dtype != dtype) moves = false;
  }
  const Dtype as = moves ? BitsOf(dtype) : dtype;
  output.dtype = as;
  ProgramBuilder program(output.shape, ClassOf(as));
  TENSORD_ASSIGN_OR_RETURN(const Value condition, Add(call.inputs[0], Dtype::kBool, program));
  Value values[2];
  for (size_t i = 0; i < 2; ++i) {
    const KernelOperand& operand = call.inputs[i + 1];
    if (operand.tensor != nullptr) {
      TensorView tensor = *operand.tensor;
      if (moves) tensor.dtype = as;
      values[i] = program.AddTensor(tensor, as);
    } else {
      uint64_t bits = 0;
      if (!operand.absent()) TENSORD_RETURN_IF_ERROR(StoreScalar(*operand.scalar, dtype, &bits));
      values[i] = program.AddConstant(bits, as, as);
    }
  }
  program.AddOutput(program.Apply(Op::kWhere, as, {condition, values[0], values[1]}), output);
  return program.Launch(context);
}

// max with the lower bound, then min with the upper one; a bound left out is an instruction left out.
absl::Status RunClip(const KernelCall& call, Dtype dtype, Context& context) {
  if (!Takes(TypeRule::kNumeric, dtype)) return Unsupported(call.op, dtype, context);
  ProgramBuilder program(call.outputs[0].shape, ClassOf(dtype));
  TENSORD_ASSIGN_OR_RETURN(Value result, Add(call.inputs[0], dtype, program));
  constexpr Op kBounds[2] = {Op::kMaximum, Op::kMinimum};
  for (size_t i = 0; i < 2; ++i) {
    if (call.inputs.size() <= i + 1 || call.inputs[i + 1].absent()) continue;
    TENSORD_ASSIGN_OR_RETURN(const Value bound, Add(call.inputs[i + 1], dtype, program));
    result = program.Apply(kBounds[i], dtype, {result, bound});
  }
  program.AddOutput(result, call.outputs[0]);
  return program.Launch(context);
}

absl::Status RunCast(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  const KernelOperand& x = call.inputs[0];
  if (x.tensor != nullptr) {
    TensorView input = *x.tensor;
    input.strides = BroadcastStrides(input, output.shape);
    input.shape = output.shape;
    return CopyStrided(input, output, context);
  }
  if (!Takes(TypeRule::kAny, output.dtype)) return Unsupported(call.op, output.dtype, context);
  ProgramBuilder program(output.shape, ClassOf(output.dtype));
  TENSORD_ASSIGN_OR_RETURN(const Value value, Add(x, output.dtype, program));
  program.AddOutput(value, output);
  return program.Launch(context);
}

// Of bools the program's integers would invert every bit.
Op OpFor(Op op, Dtype dtype) { return op == Op::kBitwiseInvert && dtype == Dtype::kBool ? Op::kLogicalNot : op; }

}  // namespace

absl::Status RunElementwise(const KernelCall& call, Context& context) {
  const TensorView& output = call.outputs[0];
  if (output.elements() == 0) return absl::OkStatus();
  const Dtype dtype = ComputeDtype(call);
  switch (call.op) {
    case Op::kWhere:
      return RunWhere(call, context);
    case Op::kClip:
      return RunClip(call, dtype, context);
    case Op::kCast:
      return RunCast(call, context);
    case Op::kPositive:
      if (call.inputs[0].tensor == nullptr || call.inputs[0].tensor->dtype != output.dtype) break;
      return RunCast(call, context);  // moved, not computed with
    default:
      break;
  }
  if (!Takes(RowOf(call.op).types, dtype)) return Unsupported(call.op, dtype, context);
  const Dtype result = output.dtype == Dtype::kBool ? Dtype::kBool : dtype;
  ProgramBuilder program(output.shape, ClassOf(dtype));
  TENSORD_ASSIGN_OR_RETURN(const Value first, Add(call.inputs[0], dtype, program));
  if (call.inputs.size() == 1) {
    program.AddOutput(program.Apply(OpFor(call.op, dtype), result, {first}), output);
  } else {
    TENSORD_ASSIGN_OR_RETURN(const Value second, Add(call.inputs[1], dtype, program));
    program.AddOutput(program.Apply(call.op, result, {first, second}), output);
  }
  return program.Launch(context);
}

absl::Status CopyStrided(const TensorView& input, const TensorView& output, Context& context) {
  if (output.elements() == 0) return absl::OkStatus();
  if (IsComplex(input.dtype) || IsComplex(output.dtype)) return Unsupported(Op::kCast, input.dtype, context);
  if (!SameBits(input.dtype, output.dtype)) {
    ProgramBuilder program(output.shape, ClassOf(output.dtype));
    program.AddOutput(program.AddTensor(input, output.dtype), output);
    return program.Launch(context);
  }
  if (!Clobbers(output, input)) return CopyBits(input, output.data, ContiguousStrides(output.shape), context);
  TensorView copy = output;
  TENSORD_ASSIGN_OR_RETURN(const Scratch memory, Scratch::Allocate(static_cast<size_t>(copy.bytes()), context));
  copy.data = memory.data();
  TENSORD_RETURN_IF_ERROR(CopyBits(input, copy.data, ContiguousStrides(copy.shape), context));
  return CopyBits(copy, output.data, copy.strides, context);
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

}  // namespace tensord::cuda
