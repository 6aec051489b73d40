// Execute: one program, registered program or model, once, all or nothing.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/core.h"
#include "server/engine/planner.h"

namespace tensord {

// One call from its start to its answer; keeps itself alive until then.
//
// Start plans under the session's mutex: whatever can be refused is refused before anything is enqueued or kept. Then
// the call waits, without a thread, until its work has ended and its outputs are done; then it publishes, reads values,
// answers. The end of the session or of the caller, like the deadline, drops what has not begun and answers without waiting for outputs.
// What it had kept in the session is taken back where it failed.
class ExecuteCall : public RefCounted<ExecuteCall> {
 public:
  ExecuteCall(std::shared_ptr<Core> core, Caller caller, ExecuteRequest request, Done<ExecuteResponse> done)
      : core_(std::move(core)), caller_(std::move(caller)), request_(std::move(request)), done_(std::move(done)) {}

  // Once.
  void Start(absl::StatusOr<std::shared_ptr<Session>> session);

 private:
  // What is asked of one output.
  struct Result {
    std::string name;
    ResultRequest request;
    Ref<Tensor> tensor;
    Ref<Tensor> readable;  // contiguous, with values
  };
  // The callee's formal inputs and outputs.
  struct Signature {
    absl::Span<const ProgramValue> inputs;
    absl::Span<const ProgramValue> outputs;
  };

  absl::Status Plan();
  absl::StatusOr<Signature> FindCallee();
  absl::StatusOr<std::vector<Ref<Tensor>>> BindArguments(const Signature& signature, Planner& planner);
  absl::StatusOr<Ref<Tensor>> BindArgument(size_t index, std::string_view formal, Planner& planner);
  absl::StatusOr<std::vector<Ref<Tensor>>> PlanCallee(absl::Span<const Ref<Tensor>> arguments, Planner& planner);
  absl::Status BindResults(const Signature& signature, const std::vector<Ref<Tensor>>& outputs, Planner& planner);
  absl::Status CheckResult(const Result& result, size_t index);
  // The same tensor under another name, for messages; a result that is one of them is the tensor itself.
  Ref<Tensor> Called(const Ref<Tensor>& tensor, std::string_view name);
  void KeepResults();

  void CountDown();
  void Expire();
  // Nobody waits for the answer any more: drops work that has not begun. Without locks.
  void Cancel(const absl::Status& cause);
  void Finish();
  absl::Status Outcome() const;
  absl::StatusOr<ExecuteResponse> MakeResponse();
  void TakeBack();
  void Answer(absl::StatusOr<ExecuteResponse> response);

  const std::shared_ptr<Core> core_;
  const Caller caller_;
  ExecuteRequest request_;
  Done<ExecuteResponse> done_;
  const absl::Time start_ = absl::Now();

  // Set while planning.
  std::shared_ptr<Session> session_;
  std::shared_ptr<const Program> program_;
  std::shared_ptr<const RegisteredProgram> registered_;
  Ref<Model> model_;
  Ref<Batch> batch_;
  std::vector<Result> results_;
  std::vector<NameTable::Gift> gifts_;
  std::vector<std::pair<Ref<Tensor>, Ref<Tensor>>> called_;  // arguments under their names, and what they are
  uint64_t inline_bytes_ = 0;
  Timer::Id timer_ = 0;
  Cancellation::Id session_end_ = 0;
  Cancellation::Id caller_end_ = 0;

  absl::Mutex mu_;
  int64_t waiting_ ABSL_GUARDED_BY(mu_) = 1;  // outputs and the work as a whole
  bool work_done_ ABSL_GUARDED_BY(mu_) = false;
  bool expired_ ABSL_GUARDED_BY(mu_) = false;
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<InstructionReport> reports_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
