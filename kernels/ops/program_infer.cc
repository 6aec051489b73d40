#include "kernels/ops/program_infer.h"

#include <string>
#include <string_view>
#include <utility>

#include "kernels/core/error.h"

namespace tensord {
namespace {

using Symbols = absl::flat_hash_map<std::string_view, int64_t>;

// "float32[batch,3]", "float32 of any shape".
std::string FormalText(const ProgramValue& value) {
  const std::string dtype(value.dtype == Dtype::kNone ? "any dtype" : DtypeName(value.dtype));
  if (!value.shape) return dtype + " of any shape";
  std::vector<std::string> sizes;
  for (const int64_t size : *value.shape) {
    const auto symbol = static_cast<size_t>(-1 - size);
    if (size >= 0) {
      sizes.push_back(StrCat(size));
    } else if (size == ProgramValue::kAnySize || symbol >= value.symbols.size()) {
      sizes.emplace_back("any");
    } else {
      sizes.push_back(value.symbols[symbol]);
    }
  }
  return StrCat(dtype, "[", StrJoin(sizes, ","), "]");
}

Error Mismatch(const ProgramValue& formal, size_t i, std::string_view problem) {
  return Error(Reason::kArgumentMismatch)
      .With("name", formal.name.empty() ? StrCat(i) : formal.name)
      .With("problem", problem)
      .At(StrCat("inputs[", i, "]"));
}

absl::Status CheckArgument(const ProgramValue& formal, size_t i, const TensorType& given, Symbols& symbols) {
  const auto refuse = [&](std::string_view problem) -> absl::Status {
    return Mismatch(formal, i, problem).With("expected", FormalText(formal)).With("got", given.ToString());
  };
  if (formal.dtype != Dtype::kNone && formal.dtype != given.dtype) return refuse("has another dtype");
  if (!formal.shape) return absl::OkStatus();
  if (formal.shape->size() != given.shape.size()) return refuse("has another number of axes");
  for (size_t d = 0; d < given.shape.size(); ++d) {
    const int64_t size = (*formal.shape)[d];
    const int64_t got = given.shape[d];
    if (size >= 0) {
      if (size != got) return refuse(StrCat("has another size at axis ", d));
      continue;
    }
    const auto symbol = static_cast<size_t>(-1 - size);
    if (size == ProgramValue::kAnySize || symbol >= formal.symbols.size()) continue;
    const auto [it, fresh] = symbols.try_emplace(formal.symbols[symbol], got);
    if (!fresh && it->second != got) {
      return refuse(StrCat("has ", got, " for ", it->first, ", which is ", it->second, " elsewhere"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

const TensorType* ProgramTypes::Find(uint64_t id) const {
  const auto it = values.find(id);
  return it == values.end() ? nullptr : &it->second;
}

absl::Status CheckArguments(absl::Span<const ProgramValue> formal, absl::Span<const TensorType* const> inputs) {
  if (inputs.size() > formal.size()) {
    return Error(Reason::kArgumentMismatch)
        .With("name", formal.size())
        .With("problem", "is one too many")
        .With("expected", StrCat(formal.size(), " inputs"))
        .With("got", inputs.size())
        .At("inputs");
  }
  Symbols symbols;
  for (size_t i = 0; i < formal.size(); ++i) {
    if (i < inputs.size() && inputs[i] != nullptr) {
      TENSORD_RETURN_IF_ERROR(CheckArgument(formal[i], i, *inputs[i], symbols));
    } else if (!formal[i].optional) {
      return Mismatch(formal[i], i, "is missing").With("expected", FormalText(formal[i])).With("got", "nothing");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramTypes> InferProgram(const Program& program, absl::Span<const TensorType* const> inputs,
                                          absl::Span<const TensorType> bindings, const CallInference& call) {
  TENSORD_RETURN_IF_ERROR(CheckArguments(program.inputs, inputs));
  ProgramTypes types;
  types.values.reserve(inputs.size() + bindings.size() + program.instructions.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] != nullptr) types.values.emplace(program.inputs[i].id, *inputs[i]);
  }
  for (size_t i = 0; i < program.bindings.size() && i < bindings.size(); ++i) {
    types.values.emplace(program.bindings[i].id, bindings[i]);
  }
  absl::InlinedVector<OperandType, 4> operands;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.op == Op::kNone) continue;
    const auto fail = [&](absl::Status status) {
      status = WithMetadata(AtPath(status, StrCat("instructions[", i, "].")), "instruction", StrCat(i));
      return instruction.label.empty() ? status : WithMetadata(status, "label", instruction.label);
    };
    operands.clear();
    size_t scalar = 0;
    for (const uint64_t id : instruction.inputs) {
      if (id == 0) {
        operands.push_back({.scalar = &instruction.scalars[scalar++]});
      } else {
        operands.push_back({.tensor = types.Find(id)});
      }
    }
    if (instruction.op == Op::kCall) {
      if (call == nullptr) {
        return fail(
            Error(Reason::kNotOffered).With("what", "a call inside this program").Say("daemon_version", "this"));
      }
      absl::StatusOr<std::vector<TensorType>> results = call(instruction, operands);
      if (!results.ok()) return fail(results.status());
      for (size_t k = 0; k < results->size(); ++k) {
        types.values.emplace(instruction.output + k, std::move((*results)[k]));
      }
      continue;
    }
    absl::StatusOr<Inference> inference = Infer(instruction, operands);
    if (!inference.ok()) return fail(inference.status());
    types.values.emplace(instruction.output, std::move(inference->outputs[0]));
  }
  return types;
}

}  // namespace tensord
