// Builds and launches programs for the program kernel (program.cuh): values in SSA form go in, registers, rounding and
// memory layouts are found here.
//
//   ProgramBuilder program(out.shape, ClassOf(Dtype::kFloat32));
//   const auto x = program.AddTensor(view, Dtype::kFloat32);
//   const auto two = program.AddConstant(bits, Dtype::kFloat32, Dtype::kFloat32);
//   program.AddOutput(program.Apply(Op::kMultiply, Dtype::kFloat32, {x, two}), out);
//   TENSORD_RETURN_IF_ERROR(program.Launch(context));
//
// Outputs are contiguous, of the program's shape. An input that an output would overwrite too early is copied first. A
// program that does not fit (program.cuh has the sizes) gives INTERNAL when it is launched: whoever fuses instructions
// asks Fits() before he adds one.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "absl/container/inlined_vector.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/program.cuh"
#include "kernels/ops/op.h"

namespace tensord::cuda {

class ProgramBuilder {
 public:
  struct Value {
    bool is_input = true;
    int index = -1;
  };

  // `shape` must have elements.
  ProgramBuilder(const Dims& shape, ValueClass value_class) : shape_(shape), value_class_(value_class) {}

  // A tensor that broadcasts to the shape, computed with as `to`: a dtype of the class, or bool.
  Value AddTensor(const TensorView& tensor, Dtype to);
  // One element of dtype `from`.
  Value AddConstant(uint64_t bits, Dtype from, Dtype to);
  // A row of Unary, Binary or Compare, kWhere, or kCast, which only rounds. `dtype` is the result's: of the class, or
  // bool.
  Value Apply(Op op, Dtype dtype, std::initializer_list<Value> operands);
  void AddOutput(Value value, const TensorView& output);

  // Whether another instruction with so many new inputs and outputs can be added (registers are only known at launch).
  bool Fits(size_t inputs, size_t outputs) const;

  // Asynchronous. Errors: MEMORY_EXHAUSTED (copies of inputs), DEVICE_LOST, INTERNAL.
  absl::Status Launch(Context& context);

 private:
  struct Input {
    TensorView tensor;  // data null: a constant
    uint64_t bits = 0;
    Dtype to = Dtype::kNone;
  };
  struct Step {
    Op op = Op::kNone;
    Dtype dtype = Dtype::kNone;
    absl::InlinedVector<Value, 3> operands;
  };
  struct Output {
    Value value;
    TensorView tensor;
  };

  // Gives every result that outlives the next instruction a register. False: there are not enough.
  bool Allocate(Program& program) const;
  // Whether the result of `step` is seen unrounded only by outputs that round it the same way.
  bool RoundedByOutputs(size_t step) const;
  absl::Status Bring(Program& program, absl::InlinedVector<Scratch, 2>& copies, Context& context);

  const Dims shape_;
  const ValueClass value_class_;
  absl::InlinedVector<Input, 3> inputs_;
  absl::InlinedVector<Step, 4> steps_;
  absl::InlinedVector<Output, 1> outputs_;
};

}  // namespace tensord::cuda
