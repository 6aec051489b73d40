// Programs and models as work: a call is its callee's instructions, planned in place.
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "kernels/core/error.h"
#include "kernels/ops/program_infer.h"
#include "server/engine/planner.h"

namespace tensord {
namespace {

absl::Status CheckTypes(absl::Span<const ProgramValue> formal, absl::Span<const Ref<Tensor>> arguments) {
  absl::InlinedVector<const TensorType*, 8> types;
  for (const Ref<Tensor>& argument : arguments) types.push_back(argument ? &argument->spec.type : nullptr);
  return CheckArguments(formal, types);
}

absl::Status TooDeep(const Limits& limits, uint32_t depth) {
  return Error(Reason::kLimitExceeded)
      .With("limit", "max_program_depth")
      .With("value", depth)
      .With("maximum", limits.max_program_depth);
}

}  // namespace

absl::StatusOr<std::vector<Ref<Tensor>>> Planner::PlanProgram(const Program& program, std::shared_ptr<const void> owner,
                                                              absl::Span<const Ref<Tensor>> arguments,
                                                              absl::Span<const Ref<Tensor>> bindings,
                                                              const PlanSite& site) {
  if (site.depth > core_.limits().max_program_depth) return TooDeep(core_.limits(), site.depth);
  for (const absl::Span<const Ref<Tensor>> given : {arguments, bindings}) {
    for (const Ref<Tensor>& tensor : given) {
      if (tensor && tensor->failed()) return AddDistance(tensor->error(), 1);
    }
  }
  TENSORD_RETURN_IF_ERROR(CheckTypes(program.inputs, arguments));
  if (owner) batch_->keep.push_back(std::move(owner));

  absl::flat_hash_map<uint64_t, Ref<Tensor>> values;
  values.reserve(program.inputs.size() + bindings.size() + program.instructions.size());
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    if (i < arguments.size() && arguments[i]) values.emplace(program.inputs[i].id, arguments[i]);
  }
  for (size_t i = 0; i < bindings.size(); ++i) values.emplace(program.bindings[i].id, bindings[i]);

  absl::InlinedVector<Ref<Tensor>, 4> inputs;
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    // Inside a program attributes are referred to, so nothing is moved out of the instruction.
    auto& instruction = const_cast<Instruction&>(program.instructions[i]);
    if (instruction.op == Op::kNone) continue;
    inputs.clear();
    for (const uint64_t id : instruction.inputs) {
      const auto it = id == 0 ? values.end() : values.find(id);
      inputs.push_back(it == values.end() ? Ref<Tensor>() : it->second);
    }
    const PlanSite inside{static_cast<uint32_t>(i), site.depth, true, site.prefix};
    TENSORD_ASSIGN_OR_RETURN(Outputs outputs, Plan(instruction, inputs, inside));
    for (size_t k = 0; k < outputs.size(); ++k) values.emplace(instruction.output + k, std::move(outputs[k]));
  }
  std::vector<Ref<Tensor>> results;
  for (const ProgramValue& output : program.outputs) {
    const auto it = values.find(output.id);
    if (it == values.end()) {
      return Error(Reason::kArgumentMismatch)
          .With("name", output.name.empty() ? StrCat(output.id) : output.name)
          .With("problem", "is an output, and an input that was left out");
    }
    results.push_back(it->second);
  }
  return results;
}

absl::StatusOr<std::vector<Ref<Tensor>>> Planner::PlanModel(const Ref<Model>& model, std::string_view text,
                                                            absl::Span<const Ref<Tensor>> arguments,
                                                            const PlanSite& site) {
  const CompiledModel& compiled = model->compiled();
  const size_t inputs = compiled.program.inputs.size() - compiled.parameters.size();
  for (const Ref<Tensor>& argument : arguments) {
    if (argument && argument->failed()) return AddDistance(argument->error(), 1);
  }
  TENSORD_RETURN_IF_ERROR(CheckTypes(absl::MakeConstSpan(compiled.program.inputs).subspan(0, inputs), arguments));
  const Model::Replicas replicas = model->replicas();
  const Replica* chosen = &replicas->front();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i]) continue;
    const DeviceId device = arguments[i]->spec.device;
    chosen = nullptr;
    for (const Replica& replica : *replicas) {
      if (replica.device->id() == device) chosen = &replica;
    }
    if (chosen != nullptr) break;
    if (compiled.parameters.empty()) {
      chosen = &replicas->front();
      break;
    }
    const Replica& first = replicas->front();
    const std::string here = device.ToString();
    const std::string& there = first.device->name();
    const std::string type = arguments[i]->spec.type.ToString();
    const std::string parameter = compiled.parameters[0].type.ToString();
    const std::string& label = arguments[i]->label.empty() ? compiled.program.inputs[i].name : arguments[i]->label;
    return Error(Reason::kDeviceMismatch)
        .With("op", StrCat("model ", text))
        .With("operand", i)
        .With("devices", StrCat(there, ",", here))
        .With("specs", StrCat(parameter, " and ", type))
        .With("fix", StrCat("to(", text, ", ", here, ")"))
        .Say("spec", StrCat(label, ", ", type))
        .Say("device", here)
        .Say("other", inputs)
        .Say("other_spec", StrCat("parameter ", compiled.parameters[0].path, ", ", parameter))
        .Say("other_device", there)
        .Say("advice", StrCat(text, ".to(\"", here, "\"), or ", label, ".to(\"", there, "\")"));
  }
  std::vector<Ref<Tensor>> all(arguments.begin(), arguments.end());
  all.resize(inputs);
  all.insert(all.end(), chosen->parameters.begin(), chosen->parameters.end());
  return PlanProgram(compiled.program, model->shared(), all, {}, site);
}

absl::StatusOr<Outputs> Planner::PlanCall(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs,
                                          const PlanSite& site) {
  const auto& call = AttributesAs<CallAttributes>(instruction.attributes);
  for (size_t i = 0, scalar = 0; i < inputs.size(); ++i) {
    if (instruction.inputs[i] != 0 || instruction.scalars[scalar++].absent()) continue;
    return Error(Reason::kArgumentMismatch)
        .With("name", i)
        .With("problem", "is a scalar")
        .With("expected", "a tensor")
        .With("got", instruction.scalars[scalar - 1].ToString())
        .At(StrCat("inputs[", i, "]"));
  }
  PlanSite inside = site;
  inside.depth = site.depth + 1;
  std::vector<Ref<Tensor>> results;
  if (call.model) {
    TENSORD_ASSIGN_OR_RETURN(const Ref<Model> model, core_.Resolve(*call.model, scope_.session));
    TENSORD_ASSIGN_OR_RETURN(results, PlanModel(model, ModelText(*call.model), inputs, inside));
    // Counted when its first result is there; the model lives until then.
    if (!results.empty()) {
      Storage* storage = results[0]->storage.get();
      storage->OnDone([model, storage, start = now()] {
        const auto run = static_cast<uint64_t>(std::max<int64_t>(0, absl::ToInt64Nanoseconds(absl::Now() - start)));
        model->Count(!storage->failed(), 0, run);
      });
    }
  } else if (call.program != 0) {
    if (scope_.session == nullptr) return Error(Reason::kSessionRequired).With("field", "call.program");
    const auto it = scope_.session->programs.find(call.program);
    if (it == scope_.session->programs.end()) {
      return Error(Reason::kHandleUnknown)
          .With("id", call.program)
          .With("kind", "program")
          .With("state", call.program <= scope_.session->highest_program ? "freed" : "never");
    }
    const std::shared_ptr<const RegisteredProgram> registered = it->second;
    TENSORD_ASSIGN_OR_RETURN(results,
                             PlanProgram(registered->program, registered, inputs, registered->bindings, inside));
  } else {
    return Error(Reason::kAttributeInvalid)
        .With("op", "call")
        .With("attribute", "callee")
        .With("value", "absent")
        .With("allowed", "program or model")
        .At("call");
  }
  if (instruction.outputs() != results.size()) {
    return Error(Reason::kArityInvalid)
        .With("op", "call")
        .With("expected", StrCat(results.size(), results.size() == 1 ? " result" : " results"))
        .With("got", instruction.outputs())
        .At("output_count");
  }
  return Outputs(results.begin(), results.end());
}

}  // namespace tensord
