#include "kernels/ops/program.h"

#include <algorithm>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "kernels/core/error.h"

namespace tensord {
namespace {

// No instruction makes more results than this, whatever the daemon's own limit.
constexpr uint32_t kMostOutputs = 65536;

absl::Status Invalid(uint64_t id, std::string_view problem, std::string_view path) {
  return Error(Reason::kProgramInvalid).With("id", id).With("problem", problem).At(path);
}

class Checker {
 public:
  explicit Checker(const Program& program) : program_(program) {}

  absl::Status Run() {
    TENSORD_RETURN_IF_ERROR(CheckNames(program_.inputs, "inputs"));
    TENSORD_RETURN_IF_ERROR(CheckNames(program_.outputs, "outputs"));
    for (size_t i = 0; i < program_.inputs.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(Define(program_.inputs[i].id, StrCat("inputs[", i, "].id")));
    }
    for (size_t i = 0; i < program_.bindings.size(); ++i) {
      TENSORD_RETURN_IF_ERROR(Define(program_.bindings[i].id, StrCat("bindings[", i, "].id")));
    }
    for (size_t i = 0; i < program_.instructions.size(); ++i) {
      const absl::Status status = CheckInstruction(program_.instructions[i]);
      if (!status.ok()) {
        return WithMetadata(AtPath(status, StrCat("instructions[", i, "].")), "instruction", StrCat(i));
      }
    }
    for (size_t i = 0; i < program_.outputs.size(); ++i) {
      const uint64_t id = program_.outputs[i].id;
      if (!defined_.contains(id)) return Invalid(id, "is not defined", StrCat("outputs[", i, "].id"));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckNames(const std::vector<ProgramValue>& values, std::string_view field) {
    absl::flat_hash_set<std::string_view> names;
    for (size_t i = 0; i < values.size(); ++i) {
      const std::string& name = values[i].name;
      if (name.empty() || names.insert(name).second) continue;
      return Invalid(values[i].id, StrCat("has the name ", name, ", which another of the ", field, " has"),
                     StrCat(field, "[", i, "].name"));
    }
    return absl::OkStatus();
  }

  absl::Status Define(uint64_t id, std::string_view path) {
    if (id == 0) return Invalid(id, "is no number for a value; they count from 1", path);
    if (!defined_.insert(id).second) return Invalid(id, "is defined twice", path);
    return absl::OkStatus();
  }

  absl::Status CheckInstruction(const Instruction& instruction) {
    if (!instruction.invalid.ok()) return instruction.invalid;
    if (!instruction.frees.empty()) {
      return Invalid(instruction.frees.front(), "is freed; values of a program end by themselves", "frees[0]");
    }
    if (instruction.op == Op::kNone) {
      if (instruction.output == 0 && instruction.inputs.empty()) return absl::OkStatus();
      return Invalid(instruction.output, "is made by no op", "op");
    }
    TENSORD_RETURN_IF_ERROR(CheckScalarCount(instruction));
    for (size_t i = 0; i < instruction.inputs.size(); ++i) {
      const uint64_t id = instruction.inputs[i];
      if (id == 0 || defined_.contains(id)) continue;
      return Invalid(id, "is used before it is defined", StrCat("inputs[", i, "]"));
    }
    return DefineOutputs(instruction);
  }

  absl::Status DefineOutputs(const Instruction& instruction) {
    const uint32_t count = instruction.outputs();
    if (count > 1 && RowOf(instruction.op).family != Family::kCall) {
      return Error(Reason::kArityInvalid)
          .With("op", RowOf(instruction.op).name)
          .With("expected", "1 result")
          .With("got", count)
          .At("output_count");
    }
    if (count > kMostOutputs) {
      return Error(Reason::kLimitExceeded)
          .With("limit", "max_operands")
          .With("value", count)
          .With("maximum", kMostOutputs)
          .At("output_count");
    }
    for (uint32_t k = 0; k < count; ++k) TENSORD_RETURN_IF_ERROR(Define(instruction.output + k, "output"));
    return absl::OkStatus();
  }

  const Program& program_;
  absl::flat_hash_set<uint64_t> defined_;
};

}  // namespace

absl::Status CheckScalarCount(const Instruction& instruction) {
  const auto zeros = static_cast<size_t>(std::count(instruction.inputs.begin(), instruction.inputs.end(), uint64_t{0}));
  if (zeros == instruction.scalars.size()) return absl::OkStatus();
  return Error(Reason::kArityInvalid)
      .With("op", RowOf(instruction.op).name)
      .With("expected", StrCat(zeros, " scalars, one for each 0 in inputs"))
      .With("got", instruction.scalars.size())
      .At("scalars");
}

absl::Status CheckProgram(const Program& program, uint32_t max_instructions) {
  if (program.instructions.size() > max_instructions) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_program_instructions")
        .With("value", program.instructions.size())
        .With("maximum", max_instructions)
        .At("instructions");
  }
  return Checker(program).Run();
}

}  // namespace tensord
