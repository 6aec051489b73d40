#include "kernels/cuda/program.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "kernels/cuda/layout.h"
#include "kernels/cuda/layout_copy.h"

namespace tensord::cuda {
namespace {

// The dtype whose rounding leaves every value of the class as it is.
Dtype Widest(ValueClass value_class) {
  switch (value_class) {
    case ValueClass::kInt32:
      return Dtype::kInt32;
    case ValueClass::kInt64:
      return Dtype::kInt64;
    case ValueClass::kUint64:
      return Dtype::kUint64;
    case ValueClass::kFloat:
      return Dtype::kFloat32;
    default:
      return Dtype::kFloat64;
  }
}

// Alignment at which four elements are read and written at once.
size_t QuadAlignment(Dtype dtype) { return std::min<size_t>(ItemSize(dtype) * kProgramLanes, 16); }

absl::Status DoesNotFit(const char* what) {
  return Error(Reason::kInternal).With("id", "program").With("cause", StrCat("too many ", what, " for one program"));
}

// A contiguous copy of `view` repeated to `shape`, in memory that is kept in `copies`.
absl::StatusOr<TensorView> DenseCopy(const TensorView& view, const Dims& shape, absl::InlinedVector<Scratch, 2>& copies,
                                     Context& context) {
  TensorView source = view;
  source.shape = shape;
  source.strides = BroadcastStrides(view, shape);
  TensorView copy = source;
  copy.strides = ContiguousStrides(shape);
  TENSORD_ASSIGN_OR_RETURN(Scratch memory, Scratch::Allocate(static_cast<size_t>(copy.bytes()), context));
  copy.data = memory.data();
  copies.push_back(std::move(memory));
  TENSORD_RETURN_IF_ERROR(CopyBits(source, copy.data, copy.strides, context));
  return copy;
}

}  // namespace

ProgramBuilder::Value ProgramBuilder::AddTensor(const TensorView& tensor, Dtype to) {
  inputs_.push_back({tensor, 0, to});
  return {true, static_cast<int>(inputs_.size()) - 1};
}

ProgramBuilder::Value ProgramBuilder::AddConstant(uint64_t bits, Dtype from, Dtype to) {
  inputs_.push_back({TensorView{from, {}, {}, nullptr}, bits, to});
  return {true, static_cast<int>(inputs_.size()) - 1};
}

ProgramBuilder::Value ProgramBuilder::Apply(Op op, Dtype dtype, std::initializer_list<Value> operands) {
  steps_.push_back({op, dtype, {operands.begin(), operands.end()}});
  return {false, static_cast<int>(steps_.size()) - 1};
}

void ProgramBuilder::AddOutput(Value value, const TensorView& output) {
  if (value.is_input) value = Apply(Op::kCast, inputs_[static_cast<size_t>(value.index)].to, {value});
  outputs_.push_back({value, output});
}

bool ProgramBuilder::Fits(size_t inputs, size_t outputs) const {
  return inputs_.size() + inputs <= kProgramInputs && outputs_.size() + outputs <= kProgramOutputs &&
         steps_.size() + 1 <= kProgramInstructions;
}

bool ProgramBuilder::Allocate(Program& program) const {
  constexpr size_t kNever = 0;
  const size_t count = steps_.size();
  // The last step that reads a result; `count` for outputs, which come after all.
  absl::InlinedVector<size_t, 8> last_use(count, kNever);
  for (size_t s = 0; s < count; ++s) {
    for (const Value& v : steps_[s].operands) {
      if (!v.is_input) last_use[static_cast<size_t>(v.index)] = s;
    }
  }
  for (const Output& o : outputs_) last_use[static_cast<size_t>(o.value.index)] = count;

  absl::InlinedVector<uint8_t, 8> place(count, kNoOperand);
  size_t free_from[kProgramRegisters] = {};  // the step that may write the register again
  const auto name = [&](const Value& v, size_t reader) {
    if (v.is_input) return static_cast<uint8_t>(v.index);
    return static_cast<size_t>(v.index) + 1 == reader ? kPrevious : place[static_cast<size_t>(v.index)];
  };
  for (size_t s = 0; s < count; ++s) {
    ProgramInstruction& instruction = program.instructions[s];
    instruction.op = static_cast<uint16_t>(steps_[s].op);
    instruction.dtype = RoundedByOutputs(s) ? Widest(value_class_) : steps_[s].dtype;
    std::fill(std::begin(instruction.operands), std::end(instruction.operands), kNoOperand);
    // At the end of the list where there are fewer than three: the kernel moves them up as they come.
    const size_t operands = steps_[s].operands.size();
    for (size_t k = 0; k < operands; ++k) instruction.operands[k] = name(steps_[s].operands[k], s);
    if (last_use[s] > s + 1) {
      // A register that is last read by this very step is free for its result.
      const auto* const found =
          std::find_if(std::begin(free_from), std::end(free_from), [s](size_t f) { return f <= s; });
      if (found == std::end(free_from)) return false;
      const auto r = static_cast<size_t>(found - std::begin(free_from));
      free_from[r] = last_use[s];
      place[s] = static_cast<uint8_t>(kFirstRegister + r);
    }
    instruction.result = place[s];
  }
  for (size_t o = 0; o < outputs_.size(); ++o) program.outputs[o].value = name(outputs_[o].value, count);
  return true;
}

bool ProgramBuilder::RoundedByOutputs(size_t step) const {
  for (const Step& s : steps_) {
    for (const Value& v : s.operands) {
      if (!v.is_input && static_cast<size_t>(v.index) == step) return false;
    }
  }
  return std::all_of(outputs_.begin(), outputs_.end(), [&](const Output& o) {
    return static_cast<size_t>(o.value.index) != step || o.tensor.dtype == steps_[step].dtype;
  });
}

absl::Status ProgramBuilder::Bring(Program& program, absl::InlinedVector<Scratch, 2>& copies, Context& context) {
  Dims shape;
  absl::InlinedVector<Dims, 3> strides;
  const auto collapse = [&] {
    shape = shape_;
    strides.clear();
    for (const Input& input : inputs_) {
      strides.push_back(input.tensor.data != nullptr ? BroadcastStrides(input.tensor, shape_) : Dims(shape_.size(), 0));
    }
    // Dimensions may be joined that an operand of one element has its stride 0 in, whatever the others have.
    absl::InlinedVector<Dims, 3> varying;
    absl::InlinedVector<size_t, 3> whose;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (IsEverywhere(strides[i])) continue;
      varying.push_back(strides[i]);
      whose.push_back(i);
    }
    Collapse(shape, absl::MakeSpan(varying));
    for (Dims& s : strides) s.assign(shape.size(), 0);
    for (size_t i = 0; i < whose.size(); ++i) strides[whose[i]] = varying[i];
  };
  for (Input& input : inputs_) {
    if (input.tensor.data == nullptr) continue;
    const bool clobbered = std::any_of(outputs_.begin(), outputs_.end(),
                                       [&](const Output& o) { return Clobbers(o.tensor, input.tensor); });
    if (!clobbered) continue;
    TENSORD_ASSIGN_OR_RETURN(input.tensor, DenseCopy(input.tensor, shape_, copies, context));
  }
  collapse();
  if (shape.size() > kProgramDims) {
    for (size_t i = 0; i < inputs_.size(); ++i) {
      if (IsEverywhere(strides[i])) continue;
      TENSORD_ASSIGN_OR_RETURN(inputs_[i].tensor, DenseCopy(inputs_[i].tensor, shape_, copies, context));
    }
    collapse();
  }
  program.rank = static_cast<int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), program.sizes);
  const Dims contiguous = ContiguousStrides(shape);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Input& input = inputs_[i];
    ProgramInput& to = program.inputs[i];
    to.data = input.tensor.data;
    to.bits = input.bits;
    to.from = input.tensor.dtype;
    to.to = input.to;
    std::copy(strides[i].begin(), strides[i].end(), to.strides);
    if (to.data == nullptr) {
      to.kind = ProgramInput::Kind::kConstant;
    } else if (IsEverywhere(strides[i])) {
      to.kind = ProgramInput::Kind::kEverywhere;
    } else if (strides[i] == contiguous) {
      to.kind = ProgramInput::Kind::kContiguous;
      to.aligned = IsAligned(to.data, QuadAlignment(to.from));
    } else {
      to.kind = ProgramInput::Kind::kStrided;
    }
  }
  return absl::OkStatus();
}

absl::Status ProgramBuilder::Launch(Context& context) {
  if (inputs_.size() > kProgramInputs) return DoesNotFit("inputs");
  if (steps_.size() > kProgramInstructions) return DoesNotFit("instructions");
  if (outputs_.size() > kProgramOutputs) return DoesNotFit("outputs");
  Program program{};
  program.value_class = value_class_;
  program.elements = NumElements(shape_);
  program.instruction_count = static_cast<int32_t>(steps_.size());
  program.output_count = static_cast<int32_t>(outputs_.size());
  if (!Allocate(program)) return DoesNotFit("values at a time");
  absl::InlinedVector<Scratch, 2> copies;
  TENSORD_RETURN_IF_ERROR(Bring(program, copies, context));
  for (size_t o = 0; o < outputs_.size(); ++o) {
    const TensorView& tensor = outputs_[o].tensor;
    if (tensor.dtype != Dtype::kBool && ClassOf(tensor.dtype) != value_class_) {
      return Error(Reason::kInternal)
          .With("id", "program")
          .With("cause", StrCat("an output of ", DtypeName(tensor.dtype), " is of another class than the program"));
    }
    program.outputs[o].data = tensor.data;
    program.outputs[o].dtype = tensor.dtype;
    program.outputs[o].aligned = IsAligned(tensor.data, QuadAlignment(tensor.dtype));
  }
  const int64_t tiles = (program.elements + kProgramLanes - 1) / kProgramLanes;
  return ToStatus(LaunchProgram(program, GridFor(tiles, kProgramThreads, context.traits), context.stream),
                  context.traits, "elementwise");
}

}  // namespace tensord::cuda
