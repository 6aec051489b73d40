// The session behind tensord::client: ids, one ordered stream with batching, reads, and taking it all up again after a
// broken connection.
//
// Works on any Engine: a daemon's (remote_engine.h), or one in this process.
//
//   TENSORD_ASSIGN_OR_RETURN(auto session, ClientSession::Open(std::move(engine), {.client = "example"}));
//   session->Submit(std::move(instruction));
//   TENSORD_ASSIGN_OR_RETURN(ReadReply reply, session->Read(id, ValueFormat::kRaw));   // sends what is pending, waits
//
// Instructions are collected and sent when a value is needed, at kMaxBatch, or by a thread of the session's own some
// tens of microseconds after the first one. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cpp/stream_board.h"
#include "server/engine/engine.h"

namespace tensord {

class ClientSession {
 public:
  static absl::StatusOr<std::shared_ptr<ClientSession>> Open(std::shared_ptr<Engine> engine,
                                                             OpenSessionRequest request);
  // Closes the session: the daemon frees what it alone holds.
  ~ClientSession();

  Engine& engine() { return *engine_; }
  // As the daemon answered when the session was opened.
  const OpenSessionResponse& info() const { return info_; }

  // The first of `count` new ids.
  uint64_t NewIds(uint32_t count = 1) { return next_id_.fetch_add(count, std::memory_order_relaxed); }

  // Queues an instruction. Waits only where much is queued already: the daemon's window is full, or a broken connection
  // is still being taken up.
  void Submit(Instruction instruction) ABSL_LOCKS_EXCLUDED(mu_);
  void Bind(Binding binding) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends an id; rides along with the last instruction that uses it, so that the result may take over its memory. Never
  // waits.
  void Free(uint64_t id) ABSL_LOCKS_EXCLUDED(mu_);
  // Sends what is queued.
  void Flush() ABSL_LOCKS_EXCLUDED(mu_);

  // Waits for a tensor; id 0: until everything before has ended. Error: the tensor's first cause, or why the session is
  // gone.
  absl::StatusOr<ReadReply> Read(uint64_t id, ValueFormat format) ABSL_LOCKS_EXCLUDED(mu_);

  // For calls beside the stream: flushes, and orders the call after it.
  Caller OrderedCaller() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits until a connection that broke is up again. Error: why the session is gone.
  absl::Status AwaitConnection();

 private:
  static constexpr size_t kMaxBatch = 256;

  ClientSession(std::shared_ptr<Engine> engine, OpenSessionResponse info);
  absl::Status OpenStream() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Append(Instruction instruction) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WakeFlusher() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void FlushLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The session's own thread: flushes what has waited, and takes up a broken connection.
  void Background();
  void Recover();
  absl::Status Resume(uint64_t next_sequence) ABSL_LOCKS_EXCLUDED(mu_);
  Caller PlainCaller() const {
    Caller caller;
    caller.token = info_.token;
    return caller;
  }

  const std::shared_ptr<Engine> engine_;
  const OpenSessionResponse info_;
  const std::shared_ptr<StreamBoard> board_;
  std::atomic<uint64_t> next_id_;
  std::atomic<bool> pending_;  // whether message_ has anything: read by the flusher without mu_
  absl::Mutex mu_;             // before the board's
  std::unique_ptr<InstructionStream> stream_ ABSL_GUARDED_BY(mu_);  // null while the connection is broken
  StreamMessage message_ ABSL_GUARDED_BY(mu_);                      // being collected
  uint64_t inline_bytes_ ABSL_GUARDED_BY(mu_) = 0;                  // of its constants
  uint64_t next_sequence_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t next_tag_ ABSL_GUARDED_BY(mu_) = 1;
  std::thread background_;
};

}  // namespace tensord
