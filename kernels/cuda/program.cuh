// The program kernel: runs up to 32 elementwise instructions over any number of elements in one launch. What it is told
// is one plain struct, below; program.h builds it.
//
// All values of a program are of one class: what an element is computed in. A thread takes four neighbouring elements,
// fetches an instruction's operands (an input is read, and converted, where it is used), applies the row of ops.def,
// rounds to the instruction's dtype and goes on; the last results are written. An input may be the memory of an output
// where both are contiguous and alike: a thread reads its elements before it writes them.
//
// Standard library only; shared with device code.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/core/dtype.h"

namespace tensord::cuda {

// What a program computes in. Smaller integers and bool compute in the class that holds them and wrap (bool: != 0) when
// rounded; float16 and bfloat16 compute in float.
enum class ValueClass : uint8_t { kInt32, kInt64, kUint64, kFloat, kDouble };

constexpr ValueClass ClassOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kInt64:
    case Dtype::kUint32:
      return ValueClass::kInt64;
    case Dtype::kUint64:
      return ValueClass::kUint64;
    case Dtype::kFloat16:
    case Dtype::kBfloat16:
    case Dtype::kFloat32:
      return ValueClass::kFloat;
    case Dtype::kFloat64:
      return ValueClass::kDouble;
    default:
      return ValueClass::kInt32;
  }
}

inline constexpr int kProgramInputs = 8;
inline constexpr int kProgramOutputs = 4;
inline constexpr int kProgramInstructions = 32;
inline constexpr int kProgramDims = 8;       // after collapsing
inline constexpr int kProgramRegisters = 8;  // values that live beyond the next instruction
inline constexpr int kProgramLanes = 4;      // elements of a thread

// How an operand is named: an input, a register, the result of the instruction before, or nothing.
inline constexpr uint8_t kFirstRegister = kProgramInputs;
inline constexpr uint8_t kPrevious = kFirstRegister + kProgramRegisters;
inline constexpr uint8_t kNoOperand = 255;

struct ProgramInput {
  enum class Kind : uint8_t {
    kConstant,    // `bits`, an element of dtype `from`
    kEverywhere,  // the element at `data`
    kContiguous,
    kStrided,
  };
  const void* data;
  uint64_t bits;
  int64_t strides[kProgramDims];  // kStrided: elements
  Kind kind;
  Dtype from;    // as it lies in memory
  Dtype to;      // as it is computed with: a dtype of the program's class, or bool
  bool aligned;  // kContiguous: four elements can be read at once
};

struct ProgramInstruction {
  uint16_t op;  // Op, of Unary, Binary, Compare, Select's kWhere; Op::kCast: the operand, rounded
  Dtype dtype;  // what the result is rounded to; of the program's class, or bool
  uint8_t operands[3];
  uint8_t result;  // a register that keeps the result, or kNoOperand
};

struct ProgramOutput {
  void* data;
  uint8_t value;  // an operand
  Dtype dtype;    // of the program's class, or bool
  bool aligned;
};

struct Program {
  int64_t elements;
  int64_t sizes[kProgramDims];  // collapsed; for strided inputs
  ProgramInput inputs[kProgramInputs];
  ProgramInstruction instructions[kProgramInstructions];
  ProgramOutput outputs[kProgramOutputs];
  int32_t rank;
  int32_t instruction_count;
  int32_t output_count;
  ValueClass value_class;
};
static_assert(sizeof(Program) <= 4096, "a kernel's parameters");

// `blocks` blocks of kProgramThreads.
inline constexpr int kProgramThreads = 256;
cudaError_t LaunchProgram(const Program& program, unsigned blocks, cudaStream_t stream);

}  // namespace tensord::cuda
