#include "server/engine/execute_call.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"
#include "server/engine/stream.h"
#include "server/engine/values.h"

namespace tensord {

void ExecuteCall::Start(absl::StatusOr<std::shared_ptr<Session>> session) {
  if (!session.ok()) return Answer(session.status());
  session_ = *std::move(session);
  absl::Status status = caller_.cancellation ? caller_.cancellation->cause() : absl::OkStatus();
  if (status.ok()) {
    absl::MutexLockMaybe lock(session_ ? &session_->mu : nullptr);
    status = session_ && session_->ended ? session_->end_cause : Plan();
  }
  if (!status.ok()) {
    if (model_) model_->Count(false, 0, 0);
    if (batch_) batch_->Discard();
    return Answer(status);
  }
  // Without the session's mutex: what is done already is answered on this thread.
  const Ref<ExecuteCall> self(this);
  for (const Result& result : results_) {
    const Ref<Tensor>& awaited = result.readable ? result.readable : result.tensor;
    awaited->storage->OnDone([self] { self->CountDown(); });
  }
  const auto cancel = [self](const absl::Status& cause) { self->Cancel(cause); };
  if (session_) session_end_ = session_->calls.Add(cancel);
  if (caller_.cancellation) caller_end_ = caller_.cancellation->Add(cancel);
  batch_->Close();
}

void ExecuteCall::CountDown() {
  {
    absl::MutexLock lock(&mu_);
    --waiting_;
    if (batch_->done()) work_done_ = true;
    if (finished_ || !work_done_ || (waiting_ > 0 && !expired_)) return;
    finished_ = true;
  }
  Finish();
}

void ExecuteCall::Expire() {
  {
    absl::MutexLock lock(&mu_);
    expired_ = true;
    if (finished_ || !work_done_) return;
    finished_ = true;
  }
  Finish();
}

void ExecuteCall::Cancel(const absl::Status& cause) {
  std::vector<Ref<Lane>> lanes;
  {
    absl::MutexLockMaybe lock(session_ ? &session_->mu : nullptr);
    lanes = batch_->tenant()->lanes;
  }
  CancelNow(*core_, *batch_, lanes, cause);
  Expire();
}

absl::Status ExecuteCall::Outcome() const {
  TENSORD_RETURN_IF_ERROR(batch_->failure());
  for (const Result& result : results_) {
    const Ref<Tensor>& awaited = result.readable ? result.readable : result.tensor;
    if (awaited->failed()) return awaited->error();
    if (awaited->pending()) return batch_->cancel_status();
  }
  return absl::OkStatus();
}

absl::StatusOr<ExecuteResponse> ExecuteCall::MakeResponse() {
  TENSORD_RETURN_IF_ERROR(Outcome());
  ExecuteResponse response;
  for (const Result& result : results_) {
    ResultValue& value = response.outputs.emplace_back();
    value.name = result.name;
    value.format = result.request.value;
    if (result.readable) {
      TENSORD_ASSIGN_OR_RETURN(value.data, ReadValues(*result.readable));
    }
  }
  if (!gifts_.empty()) {
    absl::StatusOr<std::vector<int64_t>> versions = core_->names.Publish(std::move(gifts_));
    if (!versions.ok()) return versions.status();
  }
  // Who looks at the tensors now finds no copies of this call beside them.
  for (size_t i = 0; i < results_.size(); ++i) {
    if (results_[i].readable != results_[i].tensor) results_[i].readable.reset();
    response.outputs[i].tensor = core_->Info(*results_[i].tensor, results_[i].request.id);
  }
  absl::MutexLock lock(&mu_);
  std::sort(reports_.begin(), reports_.end(),
            [](const InstructionReport& a, const InstructionReport& b) { return a.instruction < b.instruction; });
  response.reports = std::move(reports_);
  return response;
}

void ExecuteCall::Finish() {
  core_->timer.Cancel(timer_);
  if (session_) session_->calls.Remove(session_end_);
  if (caller_.cancellation) caller_.cancellation->Remove(caller_end_);
  absl::StatusOr<ExecuteResponse> response = MakeResponse();
  if (model_) {
    const int64_t run = absl::ToInt64Nanoseconds(absl::Now() - start_);
    model_->Count(response.ok(), 0, static_cast<uint64_t>(std::max<int64_t>(run, 0)));
  }
  const bool kept = std::any_of(results_.begin(), results_.end(), [](const Result& r) { return r.request.id != 0; });
  if (response.ok() || !kept) return Answer(std::move(response));
  // Taking handles back needs the session's mutex, which this thread may have to leave alone.
  core_->timer.Post([self = Ref<ExecuteCall>(this), status = response.status()] {
    self->TakeBack();
    self->Answer(status);
  });
}

void ExecuteCall::TakeBack() {
  std::vector<Handle> dropped;  // freed without the mutex
  absl::MutexLock lock(&session_->mu);
  for (const Result& result : results_) {
    if (result.request.id == 0) continue;
    const Handle* handle = session_->table.Find(result.request.id);
    if (handle == nullptr || handle->tensor != result.tensor) continue;
    if (std::optional<Handle> freed = FreeHandle(*session_, result.request.id)) dropped.push_back(*std::move(freed));
  }
}

void ExecuteCall::Answer(absl::StatusOr<ExecuteResponse> response) {
  Done<ExecuteResponse> done = std::move(done_);
  // Who has the answer finds nothing held by this call any more.
  results_.clear();
  gifts_.clear();
  called_.clear();
  program_.reset();
  registered_.reset();
  model_.reset();
  done(std::move(response));
}

}  // namespace tensord
