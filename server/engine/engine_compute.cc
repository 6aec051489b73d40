// Execute, streams, registered programs.
#include <utility>

#include "kernels/core/error.h"
#include "kernels/ops/program_infer.h"
#include "server/engine/engine_impl.h"
#include "server/engine/execute_call.h"
#include "server/engine/stream.h"

namespace tensord {
namespace {

// Fills in what follows from the program's own types: all sizes and dtypes of the inputs are known, and no call is
// inside.
absl::Status InferSignature(RegisteredProgram& registered) {
  Program& program = registered.program;
  std::vector<TensorType> types;
  for (const ProgramValue& input : program.inputs) {
    if (input.dtype == Dtype::kNone || !input.shape) return absl::OkStatus();
    TensorType type{input.dtype, {}};
    for (const int64_t size : *input.shape) {
      if (size < 0) return absl::OkStatus();
      type.shape.push_back(size);
    }
    TENSORD_RETURN_IF_ERROR(CheckedBytes(type.dtype, type.shape).status());
    types.push_back(std::move(type));
  }
  for (const Instruction& instruction : program.instructions) {
    if (instruction.op == Op::kCall) return absl::OkStatus();
  }
  std::vector<const TensorType*> inputs;
  for (const TensorType& type : types) inputs.push_back(&type);
  std::vector<TensorType> bindings;
  for (const Ref<Tensor>& binding : registered.bindings) bindings.push_back(binding->spec.type);
  TENSORD_ASSIGN_OR_RETURN(const ProgramTypes values, InferProgram(program, inputs, bindings));
  for (ProgramValue& output : program.outputs) {
    const TensorType* type = values.Find(output.id);
    if (type == nullptr) continue;
    output.dtype = type->dtype;
    output.shape.emplace(type->shape.begin(), type->shape.end());
  }
  return absl::OkStatus();
}

}  // namespace

void EngineImpl::Execute(const Caller& caller, ExecuteRequest request, Done<ExecuteResponse> done) {
  absl::StatusOr<RequestSlot> slot = RequestSlot::Take(*core_, caller.principal);
  if (!slot.ok()) return done(slot.status());
  auto call = MakeRef<ExecuteCall>(
      core_, caller, std::move(request),
      [slot = *std::move(slot), done = std::move(done)](absl::StatusOr<ExecuteResponse> response) mutable {
        slot.reset();
        done(std::move(response));
      });
  core_->EnterAsync(caller,
                    [call](absl::StatusOr<std::shared_ptr<Session>> session) { call->Start(std::move(session)); });
}

absl::StatusOr<std::unique_ptr<InstructionStream>> EngineImpl::OpenStream(const Caller& caller,
                                                                          std::shared_ptr<StreamListener> listener) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->NeedSession(caller, "Stream"));
  auto stream = std::make_shared<StreamCore>(core_, session, std::move(listener));
  std::shared_ptr<StreamCore> old;
  {
    absl::MutexLock lock(&session->mu);
    if (session->ended) return session->end_cause;
    old = std::exchange(session->stream, stream);
    session->peer = caller.peer;
    session->expire_ns.store(Session::kNever);
  }
  if (old) old->End(Error(Reason::kStreamReplaced).With("session", session->id));
  // A Shutdown that began meanwhile has not seen it.
  if (core_->draining.load()) {
    stream->Abandon();
    return core_->Draining();
  }
  return std::make_unique<LocalStream>(std::move(stream));
}

absl::StatusOr<RegisterProgramResponse> EngineImpl::RegisterProgram(const Caller& caller, uint64_t id,
                                                                    Program program) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->NeedSession(caller, "RegisterProgram"));
  TENSORD_RETURN_IF_ERROR(core_->AwaitAfter(caller, session.get()));
  const Limits& limits = core_->limits();
  if (id == 0) return Error(Reason::kFieldInvalid).With("value", 0).With("allowed", "ids from 1 up").At("id");
  if (const absl::Status status = CheckProgram(program, limits.max_program_instructions); !status.ok()) {
    return AtPath(status, "program.");
  }
  for (const size_t count : {program.inputs.size(), program.outputs.size()}) {
    if (count <= limits.max_operands) continue;
    return Error(Reason::kLimitExceeded)
        .With("limit", "max_operands")
        .With("value", count)
        .With("maximum", limits.max_operands)
        .At("program");
  }
  auto registered = std::make_shared<RegisteredProgram>();
  registered->program = std::move(program);
  absl::MutexLock lock(&session->mu);
  if (session->ended) return session->end_cause;
  if (id <= session->highest_program) {
    return Error(Reason::kHandleInUse)
        .With("id", id)
        .With("spec", session->programs.contains(id) ? "a program" : "a program that was unregistered");
  }
  if (session->programs.size() >= limits.max_programs) {
    return Error(Reason::kQuotaExceeded)
        .With("quota", "programs")
        .With("used", session->programs.size())
        .With("limit", limits.max_programs)
        .With("requested", 1);
  }
  const Program& checked = registered->program;
  for (size_t i = 0; i < checked.bindings.size(); ++i) {
    absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(checked.bindings[i].tensor, session.get());
    if (!tensor.ok()) return AtPath(tensor.status(), StrCat("program.bindings[", i, "].tensor."));
    if ((*tensor)->failed()) return AddDistance((*tensor)->error(), 1);
    registered->bindings.push_back(*std::move(tensor));
  }
  if (const absl::Status status = InferSignature(*registered); !status.ok()) return AtPath(status, "program.");
  RegisterProgramResponse response{checked.inputs, checked.outputs};
  session->highest_program = id;
  session->programs.emplace(id, std::move(registered));
  return response;
}

absl::Status EngineImpl::UnregisterProgram(const Caller& caller, uint64_t id) {
  TENSORD_ASSIGN_OR_RETURN(const std::shared_ptr<Session> session, core_->NeedSession(caller, "UnregisterProgram"));
  TENSORD_RETURN_IF_ERROR(core_->AwaitAfter(caller, session.get()));
  std::shared_ptr<const RegisteredProgram> gone;  // freed without the mutex
  absl::MutexLock lock(&session->mu);
  if (session->ended) return session->end_cause;
  const auto it = session->programs.find(id);
  if (it == session->programs.end()) {
    return Error(Reason::kHandleUnknown)
        .With("id", id)
        .With("kind", "program")
        .With("state", id != 0 && id <= session->highest_program ? "freed" : "never");
  }
  gone = std::move(it->second);
  session->programs.erase(it);
  return absl::OkStatus();
}

}  // namespace tensord
