// What comes out of an instruction: dtype and shape of every result, before anything runs.
//
//   Instruction add{.op = Op::kAdd, .inputs = {1, 2}, .output = 3};
//   TensorType x{Dtype::kFloat32, {2, 3}}, y{Dtype::kFloat32, {3}};
//   Infer(add, {{.tensor = &x}, {.tensor = &y}})->outputs[0]     // float32[2,3]
//
// The only place that knows promotion, broadcasting and shape rules; programs, the engine, models and clients ask here.
// Devices are not its business (placement.h). Thread safe; no state.
//
// Promotion (array API standard 2024.12, and what it leaves open)
//   one kind                the wider dtype; float16 beside bfloat16: float32
//   signed beside unsigned  the narrowest signed dtype that holds both; signed beside uint64 is refused
//   bool beside any         the other dtype
//   real beside integer     the real dtype where NumPy and PyTorch agree, else refused:
//                             float64 with every integer, float32 with 8 and 16 bits, float16 with 8 bits,
//                             bfloat16 with none
//   weak scalar             (no dtype of its own) takes the dtype that the tensors promote to. A whole number beside
//                             bool makes int64; a real number beside bool or integers is refused; a value out of
//                             range is SCALAR_RANGE
//   scalar with a dtype     counts as a 0-d tensor of it
//   weak scalars alone      bool, int64 or float32 by the largest kind among them
// The order of operands never matters. Refusals name both dtypes and the cast that mends it.
#pragma once

#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/ops/program.h"

namespace tensord {

// An operand as inference sees it. Both null: left out.
struct OperandType {
  const TensorType* tensor = nullptr;
  const Scalar* scalar = nullptr;

  bool absent() const { return tensor == nullptr && (scalar == nullptr || scalar->absent()); }
};

struct Inference {
  absl::InlinedVector<TensorType, 1> outputs;
  // The dtype the elements are brought to before the op's loop runs: the promoted dtype of the operands (float32 for
  // float16 is the kernel's affair, not said here); of x1 and x2 for `where`; the result's for `sum` and `prod`; x's
  // for `cast`, other reductions and `take`; the result's for ops that create. kNone where no kernel runs: views, to,
  // upload, constant.
  Dtype compute = Dtype::kNone;
};

// Infers `call` (op kCall) never: its callee's signature says what it makes. Errors: ARITY_INVALID, DTYPE_MISMATCH,
// SHAPE_MISMATCH, AXIS_INVALID, ATTRIBUTE_INVALID, SCALAR_RANGE, SHAPE_INVALID, LIMIT_EXCEEDED, OP_UNSUPPORTED
// (complex); all with metadata "op".
absl::StatusOr<Inference> Infer(const Instruction& instruction, absl::Span<const OperandType> operands);

// Whether an op computes in that dtype (Inference::compute), as its type rule says; no op does in a complex one.
bool Takes(const OpRow& row, Dtype compute);

// The table above for two tensors; kNone where it is refused, and for complex.
Dtype Promote(Dtype a, Dtype b);

// Broadcasts two shapes as NumPy does. Error: the first axis, from the right end of the result, that does not fit; `op`
// names it.
absl::StatusOr<Dims> Broadcast(std::string_view op, absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// Axes normalised to 0 … rank-1, in the order given. Error: AXIS_INVALID for one outside or given twice.
absl::StatusOr<Axes> NormalizeAxes(std::string_view op, absl::Span<const int32_t> axes, int rank);

}  // namespace tensord
