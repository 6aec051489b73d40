// What a session knows of its stream from the daemon's side: messages sent and not yet acknowledged, reads not yet
// answered, whether the stream lives.
//
// Shared between the session and the listeners of its streams, which may outlive it. Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/engine.h"

namespace tensord {

class StreamBoard : public std::enable_shared_from_this<StreamBoard> {
 public:
  enum class State { kUp, kBroken, kDead };

  // A listener for a new stream; those of older streams are no longer heard.
  std::shared_ptr<StreamListener> NewListener() ABSL_LOCKS_EXCLUDED(mu_);

  // Keeps a message until it is acknowledged.
  void Sent(StreamMessage message) ABSL_LOCKS_EXCLUDED(mu_);
  // Announces a read that message `sequence` will carry. False: the session is dead.
  bool Expect(const Read& read, uint64_t sequence, size_t max_reads) ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for its answer.
  absl::StatusOr<ReadReply> Await(uint64_t tag) ABSL_LOCKS_EXCLUDED(mu_);

  // The stream has ended. A broken one may be taken up again; whatever the daemon itself refuses is final.
  void Broken(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void Dead(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void Up() ABSL_LOCKS_EXCLUDED(mu_);
  State state() const { return state_.load(std::memory_order_acquire); }
  // Waits while broken. Error: why the session is dead.
  absl::Status AwaitUp() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits while broken and `max_messages` or more are kept to be sent again.
  void AwaitRoom(size_t max_messages) ABSL_LOCKS_EXCLUDED(mu_);

  // After a resume: messages from `next_sequence` on, to be sent again, and the reads whose messages the daemon had and
  // whose answers were lost.
  struct Unfinished {
    std::vector<StreamMessage> messages;
    std::vector<Read> reads;
  };
  Unfinished Resend(uint64_t next_sequence) ABSL_LOCKS_EXCLUDED(mu_);
  // Those reads now belong to message `sequence`.
  void Reassign(const std::vector<Read>& reads, uint64_t sequence) ABSL_LOCKS_EXCLUDED(mu_);

  // The session's thread. Sleeps until there is work: `*pending`, a broken stream, or Stop (false). `pending` is set
  // before Wake.
  bool AwaitWork(const std::atomic<bool>& pending) ABSL_LOCKS_EXCLUDED(mu_);
  // Sleeps for `time`, less if there is a broken stream or Stop.
  void Pause(absl::Duration time) ABSL_LOCKS_EXCLUDED(mu_);
  // Cheap where that thread is not asleep.
  void Wake() ABSL_LOCKS_EXCLUDED(mu_);
  void Stop() ABSL_LOCKS_EXCLUDED(mu_);
  bool stopped() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  class Listener;
  struct Waiter {
    Read read;
    uint64_t sequence = 0;
    std::optional<ReadReply> reply;
  };

  void OnReply(uint64_t generation, ReadReply reply) ABSL_LOCKS_EXCLUDED(mu_);
  void OnAcknowledged(uint64_t generation, uint64_t sequence) ABSL_LOCKS_EXCLUDED(mu_);
  void OnEnd(uint64_t generation, const absl::Status& status) ABSL_LOCKS_EXCLUDED(mu_);
  void End(const absl::Status& status, bool final) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  mutable absl::Mutex mu_;
  absl::CondVar work_;  // with mu_: for the session's thread
  std::atomic<bool> asleep_ = false;
  std::atomic<State> state_ = State::kUp;    // written under mu_
  absl::Status cause_ ABSL_GUARDED_BY(mu_);  // of kBroken and kDead
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t generation_ ABSL_GUARDED_BY(mu_) = 0;
  std::deque<StreamMessage> unacknowledged_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, Waiter> waiters_ ABSL_GUARDED_BY(mu_);  // by tag; nodes stay where they are
};

}  // namespace tensord
