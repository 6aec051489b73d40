// Instructions and programs: everything that computes.
//
// An instruction applies one op to values named by ids. On a stream ids are the session's handles, in a program they
// are the program's values. A program is instructions in order, each value defined once and before its use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "kernels/core/scalar.h"
#include "kernels/core/shape.h"
#include "kernels/ops/attributes.h"
#include "kernels/ops/op.h"

namespace tensord {

struct Instruction {
  // kNone: nothing is computed and only frees act.
  Op op = Op::kNone;
  // 0 stands for the next of `scalars`.
  absl::InlinedVector<uint64_t, 3> inputs;
  // First result; further ones have the numbers after it.
  uint64_t output = 0;
  // 0 means 1.
  uint32_t output_count = 0;
  // Ids that end once this instruction is issued.
  absl::InlinedVector<uint64_t, 2> frees;
  std::vector<Scalar> scalars;
  std::string label;
  Attributes attributes;
  // Not OK: it could not be decoded (an unknown op, a wrong attribute). It fails its outputs with this status.
  absl::Status invalid;

  uint32_t outputs() const { return output_count == 0 ? 1 : output_count; }
};

// Something that exists, named at the edge of a program: a handle, a published name, a parameter of a model.
struct TensorRef {
  struct Parameter {
    ModelRef model;
    std::string path;
    bool operator==(const Parameter&) const = default;
  };
  std::variant<std::monostate, uint64_t, std::string, Parameter> ref;

  static TensorRef Id(uint64_t id) { return {id}; }
  static TensorRef Name(std::string name) { return {std::move(name)}; }
  bool operator==(const TensorRef&) const = default;
};

// A formal input or output.
struct ProgramValue {
  std::string name;
  uint64_t id = 0;
  Dtype dtype = Dtype::kNone;  // kNone: any
  // Absent: any shape. Sizes >= 0, or -1 - k for the k-th of `symbols`, or kAnySize.
  static constexpr int64_t kAnySize = INT64_MIN;
  std::optional<std::vector<int64_t>> shape;
  std::vector<std::string> symbols;
  bool optional = false;
};

// Gives an existing tensor an id.
struct Binding {
  uint64_t id = 0;
  TensorRef tensor;
};

struct Program {
  std::string name;
  std::vector<ProgramValue> inputs;
  std::vector<Binding> bindings;
  std::vector<Instruction> instructions;
  std::vector<ProgramValue> outputs;
};

// One scalar for each 0 in inputs. Error: ARITY_INVALID. CheckProgram asks this too.
absl::Status CheckScalarCount(const Instruction& instruction);

// Checks what can be checked without arguments: ids unique and defined before use, no frees, names unique, outputs
// defined, at least as many instructions as bounded. Errors: PROGRAM_INVALID, LIMIT_EXCEEDED, or the `invalid` of an
// instruction; all with field paths ("instructions[3].inputs[0]").
absl::Status CheckProgram(const Program& program, uint32_t max_instructions);

}  // namespace tensord
