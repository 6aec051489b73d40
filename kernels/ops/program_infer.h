// The types that flow through a program, given those that enter it.
//
//   InferProgram(program, {&x, &y}, {})->Find(program.outputs[0].id)->ToString()   // "float32[2,3]"
//
// What registration, models and clients ask before anything runs. The program must have passed CheckProgram. Thread
// safe.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/ops/infer.h"
#include "kernels/ops/program.h"

namespace tensord {

// The type of every value of a program; values left out have none.
struct ProgramTypes {
  absl::flat_hash_map<uint64_t, TensorType> values;

  // Null for a value left out.
  const TensorType* Find(uint64_t id) const;
};

// The results of a `call`, which its callee's signature tells.
using CallInference = std::function<absl::StatusOr<std::vector<TensorType>>(const Instruction& instruction,
                                                                            absl::Span<const OperandType> operands)>;

// Compares what is passed with the formal inputs: one type for each, null where an optional one is left out. Error:
// ARGUMENT_MISMATCH (too few or too many, missing, another dtype, another shape, a symbol with two sizes); its path is
// "inputs[i]".
absl::Status CheckArguments(absl::Span<const ProgramValue> formal, absl::Span<const TensorType* const> inputs);

// `inputs` as for CheckArguments, `bindings` one for each binding. Errors: those of CheckArguments and Infer, with
// metadata "instruction" and "label" and paths "instructions[3]. …"; NOT_OFFERED for a `call` where `call` is empty.
absl::StatusOr<ProgramTypes> InferProgram(const Program& program, absl::Span<const TensorType* const> inputs,
                                          absl::Span<const TensorType> bindings, const CallInference& call = nullptr);

}  // namespace tensord
