// A session's stream of instructions: order, window, reads, reports, and how it ends.
#pragma once

#include <atomic>
#include <deque>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/core.h"
#include "server/engine/planner.h"

namespace tensord {

// What the session, executors and the client's InstructionStream share. Thread safe.
//
// Lock order: the session's mutex, then this one's. The listener is called with the latter held, so that calls come one
// at a time and none comes after OnEnd.
class StreamCore : public std::enable_shared_from_this<StreamCore> {
 public:
  StreamCore(std::shared_ptr<Core> core, std::shared_ptr<Session> session, std::shared_ptr<StreamListener> listener)
      : core_(std::move(core)), session_(std::move(session)), listener_(std::move(listener)) {}

  absl::Status Submit(StreamMessage message);
  // Submits what was held back because too much was queued.
  void Resume();
  // The stream is over: tells the listener, drops pending reads. Idempotent; the first cause counts.
  void End(const absl::Status& status);
  // The client has gone: like End, but the listener hears nothing more.
  void Abandon();
  void Notice(const absl::Status& notice);

  const std::shared_ptr<Session>& session() const { return session_; }

 private:
  absl::Status CheckBounds(const StreamMessage& message) const;
  void Process(StreamMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  void Bind(const Binding& binding, Planner& planner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  void ProcessInstruction(Instruction& instruction, uint32_t index, Planner& planner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  absl::StatusOr<Outputs> ReserveUpload(Instruction& instruction, Planner& planner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  // An `upload` whose Upload call came first, with an equal spec.
  bool JoinsUpload(const Instruction& instruction) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  absl::Status CheckOutputs(const Instruction& instruction) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  void Insert(uint64_t id, Ref<Tensor> tensor) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  void Fail(const Instruction& instruction, const absl::Status& status, const Tensor* cause, Planner& planner,
            uint32_t index) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  // A refusal that no handle can hold: reported where reports were asked for, else a notice.
  void Complain(const absl::Status& status, const Instruction& instruction, uint32_t index, const Batch& batch);
  void ProcessRead(const Read& read, Planner& planner) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session_->mu);
  void Answer(uint64_t serial, const Read& read, Ref<Tensor> tensor);
  void Cancel(const std::vector<uint64_t>& tags);
  void Reply(uint64_t serial, ReadReply reply);
  void Report(InstructionReport report);
  void Acknowledge(uint64_t sequence);
  absl::Status end_status() const;

  const std::shared_ptr<Core> core_;
  const std::shared_ptr<Session> session_;
  const std::shared_ptr<StreamListener> listener_;

  // Guarded by the session's mutex: messages held back, and what they amount to.
  std::deque<StreamMessage> held_;
  uint64_t held_instructions_ = 0;
  uint64_t held_bytes_ = 0;

  mutable absl::Mutex mu_;
  absl::Status end_status_ ABSL_GUARDED_BY(mu_);
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t next_serial_ ABSL_GUARDED_BY(mu_) = 1;
  absl::flat_hash_map<uint64_t, uint64_t> reads_ ABSL_GUARDED_BY(mu_);  // pending: tag to serial
};

// What OpenStream returns.
class LocalStream final : public InstructionStream {
 public:
  explicit LocalStream(std::shared_ptr<StreamCore> core) : core_(std::move(core)) {}
  ~LocalStream() override { core_->Abandon(); }
  absl::Status Submit(StreamMessage message) override { return core_->Submit(std::move(message)); }

 private:
  const std::shared_ptr<StreamCore> core_;
};

// Frees a handle of a session: the upload that may fill it loses its way in. Empty where there is none.
std::optional<Handle> FreeHandle(Session& session, uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(session.mu);
// Looks at the lanes again that wait behind what may be unwanted now.
void PokeLanes(Core& core, const Tenant& tenant);

}  // namespace tensord
