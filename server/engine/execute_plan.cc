// The first half of Execute: callee, arguments, results. Everything here is refused before anything runs.
#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/execute_call.h"
#include "server/engine/stream.h"
#include "server/engine/values.h"

namespace tensord {
namespace {

Error Mismatch(std::string_view name, std::string_view problem, std::string_view path) {
  return Error(Reason::kArgumentMismatch).With("name", name).With("problem", problem).At(path);
}

std::string NameList(absl::Span<const ProgramValue> values) {
  std::vector<std::string_view> names;
  for (const ProgramValue& value : values)
    names.push_back(value.name.empty() ? "(unnamed)" : std::string_view(value.name));
  return names.empty() ? "none" : StrJoin(names, ", ");
}

// For each formal value which of the given ones it is, or -1. `field` is "inputs" or "outputs".
template <class T>
absl::StatusOr<std::vector<int>> Match(absl::Span<const ProgramValue> formal, const std::vector<T>& given,
                                       std::string_view field) {
  std::vector<int> match(formal.size(), -1);
  const bool named = !given.empty() && !given[0].name.empty();
  for (size_t i = 0; i < given.size(); ++i) {
    const std::string& name = given[i].name;
    const std::string path = StrCat(field, "[", i, "].name");
    if (name.empty() == named) {
      return Mismatch(named ? StrCat(i) : name, "is named and others are not, or the other way round", path)
          .With("expected", "all by name, or all by position")
          .With("got", "both");
    }
    size_t index = i;
    if (named) {
      index = static_cast<size_t>(
          std::find_if(formal.begin(), formal.end(), [&](const ProgramValue& v) { return v.name == name; }) -
          formal.begin());
      if (index == formal.size()) {
        return Mismatch(name, StrCat("is none of the ", field), path)
            .With("expected", NameList(formal))
            .With("got", name);
      }
    } else if (index >= formal.size()) {
      return Mismatch(StrCat(i), "is one too many", StrCat(field, "[", i, "]"))
          .With("expected", StrCat(formal.size(), " ", field))
          .With("got", given.size());
    }
    if (match[index] >= 0) return Mismatch(name, "is given twice", path).With("expected", "once").With("got", "twice");
    match[index] = static_cast<int>(i);
  }
  return match;
}

}  // namespace

absl::StatusOr<ExecuteCall::Signature> ExecuteCall::FindCallee() {
  if (auto* program = std::get_if<Program>(&request_.callee)) {
    const Limits& limits = core_->limits();
    const absl::Status status = CheckProgram(*program, limits.max_program_instructions);
    if (!status.ok()) return AtPath(status, "program.");
    for (const size_t count : {program->inputs.size(), program->outputs.size()}) {
      if (count <= limits.max_operands) continue;
      return Error(Reason::kLimitExceeded)
          .With("limit", "max_operands")
          .With("value", count)
          .With("maximum", limits.max_operands)
          .At("program");
    }
    program_ = std::make_shared<const Program>(std::move(*program));
    return Signature{program_->inputs, program_->outputs};
  }
  if (const auto* id = std::get_if<uint64_t>(&request_.callee)) {
    if (!session_) return Error(Reason::kSessionRequired).With("field", "program_id");
    const auto it = session_->programs.find(*id);
    if (it == session_->programs.end()) {
      return Error(Reason::kHandleUnknown)
          .With("id", *id)
          .With("kind", "program")
          .With("state", *id <= session_->highest_program ? "freed" : "never");
    }
    registered_ = it->second;
    return Signature{registered_->program.inputs, registered_->program.outputs};
  }
  if (const auto* ref = std::get_if<ModelRef>(&request_.callee)) {
    TENSORD_ASSIGN_OR_RETURN(model_, core_->Resolve(*ref, session_.get()));
    const Program& program = model_->compiled().program;
    const size_t inputs = program.inputs.size() - model_->compiled().parameters.size();
    return Signature{absl::MakeConstSpan(program.inputs).subspan(0, inputs), program.outputs};
  }
  return Error(Reason::kFieldInvalid)
      .With("value", "absent")
      .With("allowed", "program, program_id or model")
      .At("callee");
}

Ref<Tensor> ExecuteCall::Called(const Ref<Tensor>& tensor, std::string_view name) {
  if (!tensor->known()) return tensor;
  Ref<Tensor> called = Tensor::View(tensor->spec, tensor->layout(), *tensor, tensor->create_time);
  called->distance = tensor->distance;
  called->label = name;
  called_.emplace_back(called, tensor);
  return called;
}

absl::StatusOr<Ref<Tensor>> ExecuteCall::BindArgument(size_t index, std::string_view formal, Planner& planner) {
  Argument& argument = request_.inputs[index];
  const std::string path = StrCat("inputs[", index, "]");
  const auto* ref = std::get_if<TensorRef>(&argument.value);
  const bool by_id = ref != nullptr && std::holds_alternative<uint64_t>(ref->ref);
  if (argument.donate && !by_id) {
    return Error(Reason::kFieldInvalid)
        .With("value", "true")
        .With("allowed", "true only with a handle")
        .At(StrCat(path, ".donate"));
  }
  if (ref != nullptr) {
    absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(*ref, session_.get());
    if (!tensor.ok()) return AtPath(tensor.status(), StrCat(path, ".tensor."));
    if ((*tensor)->failed()) return AddDistance((*tensor)->error(), 1);
    if (const auto* name = std::get_if<std::string>(&ref->ref)) return Called(*tensor, *name);
    if (const auto* parameter = std::get_if<TensorRef::Parameter>(&ref->ref)) return Called(*tensor, parameter->path);
    return tensor;
  }
  auto* literal = std::get_if<TensorLiteral>(&argument.value);
  if (literal == nullptr) {
    return Error(Reason::kFieldInvalid).With("value", "absent").With("allowed", "tensor or literal").At(path);
  }
  TENSORD_ASSIGN_OR_RETURN(TensorSpec spec, core_->CheckSpec(literal->spec, StrCat(path, ".literal")));
  TENSORD_RETURN_IF_ERROR(core_->CheckData(spec.type, literal->data, StrCat(path, ".literal.data")));
  inline_bytes_ += literal->data.size();
  if (inline_bytes_ > core_->limits().max_inline_bytes) {
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_inline_bytes")
        .With("value", inline_bytes_)
        .With("maximum", core_->limits().max_inline_bytes)
        .At(path);
  }
  Ref<Tensor> tensor = planner.Constant(std::move(spec), std::move(literal->data));
  tensor->label = formal;
  return tensor;
}

absl::StatusOr<std::vector<Ref<Tensor>>> ExecuteCall::BindArguments(const Signature& signature, Planner& planner) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int> match, Match(signature.inputs, request_.inputs, "inputs"));
  std::vector<Ref<Tensor>> arguments(signature.inputs.size());
  for (size_t i = 0; i < match.size(); ++i) {
    if (match[i] < 0) continue;
    TENSORD_ASSIGN_OR_RETURN(arguments[i],
                             BindArgument(static_cast<size_t>(match[i]), signature.inputs[i].name, planner));
  }
  return arguments;
}

absl::StatusOr<std::vector<Ref<Tensor>>> ExecuteCall::PlanCallee(absl::Span<const Ref<Tensor>> arguments,
                                                                 Planner& planner) {
  if (model_) return planner.PlanModel(model_, ModelText(std::get<ModelRef>(request_.callee)), arguments, {});
  if (registered_) {
    return planner.PlanProgram(registered_->program, registered_, arguments, registered_->bindings, {});
  }
  std::vector<Ref<Tensor>> bindings;
  for (size_t i = 0; i < program_->bindings.size(); ++i) {
    absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(program_->bindings[i].tensor, session_.get());
    if (!tensor.ok()) return AtPath(tensor.status(), StrCat("program.bindings[", i, "].tensor."));
    const auto* name = std::get_if<std::string>(&program_->bindings[i].tensor.ref);
    bindings.push_back(name ? Called(*tensor, *name) : *std::move(tensor));
  }
  PlanSite site;
  site.prefix = "program.";
  return planner.PlanProgram(*program_, program_, arguments, bindings, site);
}

absl::Status ExecuteCall::CheckResult(const Result& result, size_t index) {
  const std::string path = StrCat("outputs[", index, "]");
  const ResultRequest& request = result.request;
  if (request.id != 0) {
    if (!session_) return Error(Reason::kSessionRequired).With("field", StrCat(path, ".id"));
    TENSORD_RETURN_IF_ERROR(session_->table.CheckNew(request.id));
    for (const Result& other : results_) {
      if (&other != &result && other.request.id == request.id) {
        return Error(Reason::kHandleInUse).With("id", request.id).With("spec", StrCat("output ", other.name));
      }
    }
  }
  if (!request.publish.empty()) {
    const absl::StatusOr<std::string> full = core_->names.Qualify(request.publish, core_->WorkspaceOf(session_.get()));
    if (!full.ok()) return AtPath(full.status(), StrCat(path, ".publish."));
    NameTable::Gift gift;
    gift.full = *full;
    gift.what = {result.tensor, {}};
    gift.replace = request.replace;
    gift.principal = caller_.principal;
    TENSORD_RETURN_IF_ERROR(core_->names.CheckFree(gift));
    gifts_.push_back(std::move(gift));
  }
  return absl::OkStatus();
}

absl::Status ExecuteCall::BindResults(const Signature& signature, const std::vector<Ref<Tensor>>& outputs,
                                      Planner& planner) {
  TENSORD_ASSIGN_OR_RETURN(const std::vector<int> match, Match(signature.outputs, request_.outputs, "outputs"));
  const bool all = request_.outputs.empty();
  results_.resize(all ? outputs.size() : request_.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!all && match[i] < 0) continue;
    Result& result = results_[all ? i : static_cast<size_t>(match[i])];
    if (all) {
      result.request.value = ValueFormat::kTyped;
    } else {
      result.request = request_.outputs[static_cast<size_t>(match[i])];
    }
    result.name = signature.outputs[i].name;
    result.tensor = outputs[i];
    for (const auto& [called, tensor] : called_) {
      if (outputs[i] == called) result.tensor = tensor;
    }
  }
  uint64_t bytes = 0;
  uint64_t handles = 0;
  for (size_t i = 0; i < results_.size(); ++i) {
    Result& result = results_[i];
    TENSORD_RETURN_IF_ERROR(CheckResult(result, i));
    handles += result.request.id != 0 ? 1 : 0;
    if (result.request.value == ValueFormat::kNone) continue;
    bytes += result.tensor->bytes();
    if (bytes > core_->limits().max_inline_bytes) {
      return Error(Reason::kLimitExceeded)
          .With("limit", "max_inline_bytes")
          .With("value", bytes)
          .With("maximum", core_->limits().max_inline_bytes)
          .At(StrCat("outputs[", i, "].value"));
    }
    result.readable = planner.Contiguous(result.tensor);
  }
  if (handles == 0) return absl::OkStatus();
  const uint64_t used = session_->tenant->principal->handles.load();
  if (used + handles <= core_->limits().max_handles) return absl::OkStatus();
  return Error(Reason::kQuotaExceeded)
      .With("quota", "handles")
      .With("used", used)
      .With("limit", core_->limits().max_handles)
      .With("requested", handles);
}

void ExecuteCall::KeepResults() {
  for (const Argument& argument : request_.inputs) {
    if (argument.donate) FreeHandle(*session_, std::get<uint64_t>(std::get<TensorRef>(argument.value).ref));
  }
  for (const Result& result : results_) {
    if (result.request.id == 0) continue;
    session_->tenant->principal->handles.fetch_add(1);
    session_->table.Insert(result.request.id, {result.tensor, {}});
  }
}

absl::Status ExecuteCall::Plan() {
  if (request_.priority < -10 || request_.priority > 10) {
    return Error(Reason::kFieldInvalid).With("value", request_.priority).With("allowed", "-10 to 10").At("priority");
  }
  const Ref<Tenant> tenant = session_ ? session_->tenant : core_->MakeTenant(caller_.principal, "");
  batch_ = MakeRef<Batch>(tenant, start_);
  const Ref<ExecuteCall> self(this);
  if (request_.timings) {
    batch_->report = ReportLevel::kTimings;
    batch_->report_to = [self](InstructionReport report) {
      absl::MutexLock lock(&self->mu_);
      self->reports_.push_back(std::move(report));
    };
  }
  batch_->on_done = [self] { self->CountDown(); };
  Planner planner(*core_, {session_.get(), tenant, session_ ? &session_->generator : &core_->generator}, batch_);
  TENSORD_ASSIGN_OR_RETURN(const Signature signature, FindCallee());
  {
    // Arguments go before the work begins: what was given away may be reused by it.
    TENSORD_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> arguments, BindArguments(signature, planner));
    TENSORD_ASSIGN_OR_RETURN(const std::vector<Ref<Tensor>> outputs, PlanCallee(arguments, planner));
    TENSORD_RETURN_IF_ERROR(BindResults(signature, outputs, planner));
  }
  called_.clear();
  KeepResults();
  {
    absl::MutexLock lock(&mu_);
    waiting_ += static_cast<int64_t>(results_.size());
  }
  planner.Finish();
  planner.Submit();
  if (caller_.deadline != absl::InfiniteFuture()) {
    timer_ = CancelAt(*core_, batch_, caller_.deadline,
                      Error(Reason::kDeadlineExceeded)
                          .With("after", absl::FormatDuration(caller_.deadline - start_))
                          .With("stage", "waiting for the device"),
                      [self] { self->Expire(); });
  }
  return absl::OkStatus();
}

}  // namespace tensord
