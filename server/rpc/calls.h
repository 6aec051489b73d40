// The calls that are open now: counted, bounded, and told when the daemon shuts down. Names no transport.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tensord::rpc {

// A call that lasts: an upload, a download, a stream, a watch.
class LongCall {
 public:
  virtual ~LongCall() = default;
  // The daemon began to shut down. The call may go on until EndCall. Called with the registry locked: must not call it.
  virtual void OnDrain(const absl::Status& notice) = 0;
  // Ends the call with `status`, unless it ends already. As OnDrain.
  virtual void EndCall(const absl::Status& status) = 0;
};

// Thread safe.
class CallRegistry {
 public:
  // `max_finite`: how many finite calls may be open at a time.
  explicit CallRegistry(uint32_t max_finite) : max_finite_(max_finite) {}

  // Lets a finite call (unary, upload, download) in, or a lasting one (stream, watch). Errors: DRAINING; QUOTA_EXCEEDED
  // for too many finite ones.
  absl::Status Enter(bool finite);
  void Leave(bool finite);
  // Between Enter and Leave: whom to tell. A call that is added while the daemon drains is told at once.
  void Add(LongCall* call);
  void Remove(LongCall* call);

  // From now on calls are refused with DRAINING, which names `grace`; long calls are told. Idempotent.
  void BeginDrain(absl::Duration grace);
  bool draining() const;
  // Waits until no finite call is open; false if some are when `deadline` comes.
  bool AwaitFinite(absl::Time deadline);
  // Ends every long call with DRAINING.
  void EndAll();
  uint32_t finite() const;

 private:
  absl::Status Refusal() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const uint32_t max_finite_;
  mutable absl::Mutex mutex_;
  uint32_t finite_ ABSL_GUARDED_BY(mutex_) = 0;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration grace_ ABSL_GUARDED_BY(mutex_);
  std::set<LongCall*> long_calls_ ABSL_GUARDED_BY(mutex_);
};

// What this layer remembers of sessions, by token: the public id, for the log, which must not show tokens; and how far
// the session's stream messages have been submitted, so that a new stream knows which ones the engine will skip. The
// latest few thousand sessions; of others nothing is known, which costs only the log's id. Thread safe.
class KnownSessions {
 public:
  // Opened or resumed: messages up to `submitted` have been submitted.
  void Remember(const std::string& token, const std::string& session, uint64_t submitted);
  // The public id; empty where the token is not known.
  std::string Find(const std::string& token) const;
  // The last message that was submitted, shared by the streams of the session. Never null.
  std::shared_ptr<std::atomic<uint64_t>> Submitted(const std::string& token) const;

 private:
  struct Entry {
    std::string session;
    std::shared_ptr<std::atomic<uint64_t>> submitted;
  };
  static constexpr size_t kMost = 4096;
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<std::string, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> order_ ABSL_GUARDED_BY(mutex_);
};

// Raises `value` to `at_least`.
void Raise(std::atomic<uint64_t>& value, uint64_t at_least);

}  // namespace tensord::rpc
