// The planner: turns instructions into work. Look up was done by the caller; here an instruction is checked, inferred,
// placed, its outputs reserved and its work put into the lanes of its tenant. Nothing runs before Submit.
//
//   Planner planner(core, {.session = session, .tenant = tenant, .generator = generator}, batch);
//   auto outputs = planner.Plan(instruction, inputs, {.index = i});   // StatusOr: what can be known without running
//   planner.Submit();                                                 // enqueues everything, wakes each device once
//
// Not thread safe: one message or call. The session's mutex, where there is a session, is held from the first Plan to
// Submit.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/ops/infer.h"
#include "server/engine/core.h"
#include "server/engine/model.h"
#include "server/engine/work.h"

namespace tensord {

using Outputs = absl::InlinedVector<Ref<Tensor>, 1>;

// On whose behalf a planner works.
struct PlanScope {
  Session* session = nullptr;  // null: no handles, no registered programs
  Ref<Tenant> tenant;
  Generator* generator = nullptr;
};

// Where an instruction stands.
struct PlanSite {
  uint32_t index = 0;
  uint32_t depth = 0;            // of calls inside calls
  bool in_program = false;       // the program outlives the work: attributes are referred to, not copied
  std::string_view prefix = {};  // path of the program in the request, "program."; with a trailing dot or empty
};

class Planner {
 public:
  Planner(Core& core, PlanScope scope, Ref<Batch> batch);

  // One instruction but `upload`. `inputs`: null for a scalar or an operand left out. Attributes and scalars are moved
  // out of `instruction` unless it is part of a program. Errors say op, label, instruction and origin.
  absl::StatusOr<Outputs> Plan(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs, const PlanSite& site);

  // A program with its arguments (in the order of its inputs; null where an optional one is left out) and bindings.
  // `owner` keeps it alive.
  absl::StatusOr<std::vector<Ref<Tensor>>> PlanProgram(const Program& program, std::shared_ptr<const void> owner,
                                                       absl::Span<const Ref<Tensor>> arguments,
                                                       absl::Span<const Ref<Tensor>> bindings, const PlanSite& site);
  // A model's forward pass: arguments without the parameters. Error: DEVICE_MISMATCH where no replica is on the
  // arguments' device.
  absl::StatusOr<std::vector<Ref<Tensor>>> PlanModel(const Ref<Model>& model, std::string_view text,
                                                     absl::Span<const Ref<Tensor>> arguments, const PlanSite& site);

  // The same elements contiguous: the tensor itself where it is so.
  Ref<Tensor> Contiguous(const Ref<Tensor>& tensor);
  // The same elements on a device: the tensor itself where it is there.
  Ref<Tensor> MoveTo(const Ref<Tensor>& tensor, Device& device);
  // A tensor of given bytes. They have been checked against the spec.
  Ref<Tensor> Constant(TensorSpec spec, std::string data);
  // `marker` is called once everything planned and enqueued so far for the tenant has ended; at once where that is so.
  void Barrier(std::shared_ptr<absl::AnyInvocable<void()>> marker);

  // The batch ends once what was planned has been done, not only begun: a fault that shows late fails it.
  void Finish();

  // Enqueues. Once.
  void Submit();

  bool empty() const { return work_count_ == 0; }
  absl::Time now() const { return batch_->arrival(); }
  const Ref<Batch>& batch() const { return batch_; }
  // The status as an instruction's outputs hold it.
  absl::Status Explain(const absl::Status& status, const Instruction& instruction, const PlanSite& site) const;

 private:
  absl::StatusOr<Outputs> PlanChecked(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs,
                                      const PlanSite& site);
  absl::StatusOr<Outputs> PlanCall(Instruction& instruction, absl::Span<const Ref<Tensor>> inputs,
                                   const PlanSite& site);
  absl::StatusOr<Ref<Tensor>> PlanView(const Instruction& instruction, const Ref<Tensor>& input, TensorType type);
  // The device of all operands, or the one that the instruction names.
  absl::StatusOr<Device*> PlaceOn(const Instruction& instruction, absl::Span<const Ref<Tensor>> inputs);
  absl::Status CheckSupport(Op op, Dtype compute, const Device& device) const;
  Ref<Tensor> Reserve(TensorType type, Device& device);
  WorkPtr NewWork(Work::Kind kind, Op op);
  Ref<Tensor> Copy(const Ref<Tensor>& tensor);
  void Add(Device& device, WorkPtr work);

  Core& core_;
  const PlanScope scope_;
  const Ref<Batch> batch_;
  std::vector<std::vector<WorkPtr>> work_;  // by device
  size_t work_count_ = 0;
};

}  // namespace tensord
