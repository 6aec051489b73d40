// What a stream does with each instruction: look up, plan, insert, free.
#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/stream.h"
#include "server/engine/upload.h"

namespace tensord {

std::optional<Handle> FreeHandle(Session& session, uint64_t id) {
  std::optional<Handle> handle = session.table.Erase(id);
  if (!handle) return handle;
  session.tenant->principal->handles.fetch_sub(1);
  if (!session.unjoined.empty()) session.unjoined.erase(id);
  if (handle->tensor && !session.uploads.empty()) {
    if (const auto it = session.uploads.find(id); it != session.uploads.end()) {
      const std::shared_ptr<UploadState> upload = std::move(it->second);
      session.uploads.erase(it);
      upload->Orphan(session.table.Unknown(id, "tensor"));
    }
  }
  return handle;
}

void StreamCore::Insert(uint64_t id, Ref<Tensor> tensor) {
  session_->tenant->principal->handles.fetch_add(1, std::memory_order_relaxed);
  session_->table.Insert(id, {std::move(tensor), {}});
}

absl::Status StreamCore::CheckOutputs(const Instruction& instruction) const {
  const uint32_t count = instruction.outputs();
  if (count > core_->limits().max_operands || instruction.output + count < instruction.output) {
    return Error(Reason::kArityInvalid)
        .With("op", RowOf(instruction.op).name)
        .With("expected", StrCat("at most ", core_->limits().max_operands, " results"))
        .With("got", count)
        .At("output_count");
  }
  for (uint32_t k = 0; k < count; ++k) {
    if (absl::Status status = session_->table.CheckNew(instruction.output + k); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void StreamCore::Complain(const absl::Status& status, const Instruction& instruction, uint32_t index,
                          const Batch& batch) {
  if (batch.report == ReportLevel::kNone) return Notice(status);
  InstructionReport report;
  report.sequence = batch.sequence;
  report.instruction = index;
  report.op = instruction.op;
  report.label = instruction.label;
  report.error = status;
  report.group = (batch.sequence << 20) + index + 1;
  Report(std::move(report));
}

void StreamCore::Fail(const Instruction& instruction, const absl::Status& status, const Tensor* cause, Planner& planner,
                      uint32_t index) {
  const Ref<Tensor> failed =
      cause != nullptr ? Tensor::FailedBy(*cause, planner.now()) : Tensor::Failed(status, planner.now());
  for (uint32_t k = 0; k < instruction.outputs(); ++k) Insert(instruction.output + k, failed);
  if (cause == nullptr && planner.batch()->report != ReportLevel::kNone) {
    Complain(status, instruction, index, *planner.batch());
  }
}

void StreamCore::Bind(const Binding& binding, Planner& planner) {
  if (const absl::Status status = session_->table.CheckNew(binding.id); !status.ok()) return Notice(status);
  absl::StatusOr<Ref<Tensor>> tensor = core_->Resolve(binding.tensor, session_.get());
  if (!tensor.ok()) {
    const ErrorOrigin origin{binding.id, "", planner.batch()->sequence, 0, "", 0};
    tensor = Tensor::Failed(WithOrigin(tensor.status(), origin), planner.now());
  }
  Insert(binding.id, *std::move(tensor));
}

absl::StatusOr<Outputs> StreamCore::ReserveUpload(Instruction& instruction, Planner& planner) {
  const auto& create = AttributesAs<CreateAttributes>(instruction.attributes);
  const absl::InlinedVector<OperandType, 4> operands(instruction.inputs.size());
  TENSORD_ASSIGN_OR_RETURN(const Inference inference, Infer(instruction, operands));
  TENSORD_ASSIGN_OR_RETURN(TensorSpec spec, core_->CheckSpec({inference.outputs[0], create.spec.device}, "create"));
  std::shared_ptr<UploadState> upload = UploadState::Make(core_->shared_from_this(), session_, instruction.output,
                                                          std::move(spec), session_->tenant, planner.now());
  upload->tensor()->label = instruction.label;
  session_->uploads.emplace(instruction.output, upload);
  return Outputs{upload->tensor()};
}

bool StreamCore::JoinsUpload(const Instruction& instruction) const {
  if (instruction.op != Op::kUpload || !session_->unjoined.contains(instruction.output)) return false;
  const auto& create = AttributesAs<CreateAttributes>(instruction.attributes);
  const absl::StatusOr<TensorSpec> spec = core_->CheckSpec(create.spec, "create");
  return spec.ok() && *spec == session_->table.Find(instruction.output)->tensor->spec;
}

void StreamCore::ProcessInstruction(Instruction& instruction, uint32_t index, Planner& planner) {
  if (instruction.op != Op::kNone || !instruction.invalid.ok()) {
    const PlanSite site{index, 0, false, {}};
    const absl::Status taken = CheckOutputs(instruction);
    if (!taken.ok() && JoinsUpload(instruction)) {
      session_->unjoined.erase(instruction.output);
    } else if (!taken.ok()) {
      Complain(planner.Explain(taken, instruction, site), instruction, index, *planner.batch());
    } else {
      absl::Status refusal = instruction.invalid;
      const Tensor* cause = nullptr;
      absl::InlinedVector<Ref<Tensor>, 4> inputs;
      Principal& principal = *session_->tenant->principal;
      if (principal.handles.load(std::memory_order_relaxed) + instruction.outputs() > core_->limits().max_handles) {
        refusal = Error(Reason::kQuotaExceeded)
                      .With("quota", "handles")
                      .With("used", principal.handles.load())
                      .With("limit", core_->limits().max_handles)
                      .With("requested", instruction.outputs());
      }
      for (size_t i = 0; i < instruction.inputs.size() && refusal.ok() && cause == nullptr; ++i) {
        Ref<Tensor>& input = inputs.emplace_back();
        const uint64_t id = instruction.inputs[i];
        if (id == 0) continue;
        const Handle* handle = session_->table.Find(id);
        if (handle == nullptr) {
          refusal = session_->table.Unknown(id, "tensor");
        } else if (!handle->tensor) {
          refusal = Error(Reason::kKindMismatch).With("name", id).With("kind", "model").With("expected", "tensor");
        } else {
          input = handle->tensor;
          if (input->failed()) cause = input.get();
        }
      }
      if (cause != nullptr) {
        Fail(instruction, absl::OkStatus(), cause, planner, index);
      } else if (!refusal.ok()) {
        Fail(instruction, planner.Explain(refusal, instruction, site), nullptr, planner, index);
      } else {
        absl::StatusOr<Outputs> outputs;
        if (instruction.op == Op::kUpload) {
          outputs = ReserveUpload(instruction, planner);
          if (!outputs.ok()) outputs = planner.Explain(outputs.status(), instruction, site);
        } else {
          outputs = planner.Plan(instruction, inputs, site);
        }
        if (outputs.ok()) {
          for (size_t k = 0; k < outputs->size(); ++k) Insert(instruction.output + k, std::move((*outputs)[k]));
        } else {
          Fail(instruction, outputs.status(), nullptr, planner, index);
        }
      }
    }
  }
  for (const uint64_t id : instruction.frees) {
    if (!FreeHandle(*session_, id)) {
      Complain(planner.Explain(session_->table.Unknown(id, "tensor"), instruction, {index, 0, false, {}}), instruction,
               index, *planner.batch());
    }
  }
}

}  // namespace tensord
