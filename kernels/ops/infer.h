// What comes out of an instruction: dtype and shape of every result, before anything runs.
//
// The only place that knows promotion, broadcasting and shape rules; programs, the engine, models and clients ask here.
// Devices are not its business (placement.h). Thread safe; no state.
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
  // float16 is the kernel's affair, not said here). kNone for families without promotion.
  Dtype compute = Dtype::kNone;
};

// Infers `call` (op kCall) never: its callee's signature says what it makes. Errors: ARITY_INVALID, DTYPE_MISMATCH, SHAPE_MISMATCH,
// AXIS_INVALID, ATTRIBUTE_INVALID, SCALAR_RANGE, SHAPE_INVALID, LIMIT_EXCEEDED, OP_UNSUPPORTED (complex); all with metadata "op".
absl::StatusOr<Inference> Infer(const Instruction& instruction, absl::Span<const OperandType> operands);

// The array API's promotion: same kind: the wider; real beside integer, and signed beside uint64, are open in the standard: an integer or bool beside a real takes the real's dtype
// (PyTorch and NumPy agree for tensors up to the width; where they do not, refused); kNone where it is refused.
Dtype Promote(Dtype a, Dtype b);

// Broadcasts two shapes as NumPy does. Error: the first axis, from the right end of the result, that does not fit; `op` names it.
absl::StatusOr<Dims> Broadcast(std::string_view op, absl::Span<const int64_t> a, absl::Span<const int64_t> b);

// Axes normalised to 0 … rank-1, in the order given. Error: AXIS_INVALID for one outside or given twice.
absl::StatusOr<Axes> NormalizeAxes(std::string_view op, absl::Span<const int32_t> axes, int rank);

}  // namespace tensord
