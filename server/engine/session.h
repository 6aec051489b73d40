// Sessions: leases under which handles live, and the list of them.
//
// Life: opened; alive while its stream is open, or until its lease ends, which any call renews; after a broken stream,
// until grace ends. Then, or when it is closed or killed, it is ended: handles, programs and unfinished uploads go, and
// calls get SESSION_UNKNOWN with the cause.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/cancellation.h"
#include "server/engine/handle_table.h"
#include "server/engine/tenant.h"
#include "server/engine/types.h"

namespace tensord {

class StreamCore;
class UploadState;

// A program that was registered: checked, its bindings resolved and held.
struct RegisteredProgram {
  Program program;
  std::vector<Ref<Tensor>> bindings;  // in the order of program.bindings
};

// One session. `mu` guards what says so; everything else is constant or atomic.
class Session : public std::enable_shared_from_this<Session> {
 public:
  // A call that waits until a message has been submitted.
  struct AfterWaiter {
    uint64_t sequence = 0;
    uint64_t key = 0;
    absl::AnyInvocable<void(absl::Status)> run;
  };

  Session(std::string token_, std::string id_, Ref<Tenant> tenant_, const OpenSessionRequest& request,
          std::string workspace_, absl::Duration lease_, absl::Duration grace_, uint64_t seed, absl::Time now)
      : token(std::move(token_)),
        id(std::move(id_)),
        tenant(std::move(tenant_)),
        client(request.client),
        workspace(std::move(workspace_)),
        lease(lease_),
        grace(grace_),
        open_time(now),
        generator(seed),
        expire_ns(absl::ToUnixNanos(now + lease_)) {}

  const std::string token;  // secret
  const std::string id;     // public
  const Ref<Tenant> tenant;
  const std::string client;
  const std::string workspace;
  const absl::Duration lease;
  const absl::Duration grace;
  const absl::Time open_time;
  Generator generator;
  std::atomic<uint32_t> transfers{0};
  // Its calls of Execute that have not been answered: what of them has not begun goes when the session ends.
  Cancellation calls;
  // When it ends unless renewed; kNever while its stream is open.
  static constexpr int64_t kNever = INT64_MAX;
  std::atomic<int64_t> expire_ns;

  // Held while a message or a call is checked and enqueued: this is what keeps the session's order.
  absl::Mutex mu;
  bool ended ABSL_GUARDED_BY(mu) = false;
  absl::Status end_cause ABSL_GUARDED_BY(mu);
  std::string peer ABSL_GUARDED_BY(mu);
  HandleTable table ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<uint64_t, std::shared_ptr<const RegisteredProgram>> programs ABSL_GUARDED_BY(mu);
  uint64_t highest_program ABSL_GUARDED_BY(mu) = 0;
  uint64_t next_sequence ABSL_GUARDED_BY(mu) = 1;
  std::shared_ptr<StreamCore> stream ABSL_GUARDED_BY(mu);
  absl::flat_hash_map<uint64_t, std::shared_ptr<UploadState>> uploads ABSL_GUARDED_BY(mu);
  // Handles that an Upload call made and whose `upload` instruction may still come.
  absl::flat_hash_set<uint64_t> unjoined ABSL_GUARDED_BY(mu);
  std::vector<AfterWaiter> after ABSL_GUARDED_BY(mu);
  uint64_t next_waiter ABSL_GUARDED_BY(mu) = 1;

  // Counts the lease anew, unless a stream keeps the session alive.
  void Renew(absl::Time now);
  // Takes the waiters of messages up to next_sequence - 1; they are to be run without the mutex.
  std::vector<AfterWaiter> TakeReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu);
};

// All sessions, and why those that ended lately did. Thread safe; its mutex is held alone.
class SessionRegistry {
 public:
  explicit SessionRegistry(uint64_t incarnation) : incarnation_(incarnation) {}

  void Add(std::shared_ptr<Session> session);
  // By token; the principal must be the one that opened it. Error: SESSION_UNKNOWN with the cause.
  absl::StatusOr<std::shared_ptr<Session>> Find(const std::string& token, const std::string& principal) const;
  absl::StatusOr<std::shared_ptr<Session>> FindPublic(const std::string& id, const std::string& principal) const;
  // Takes it off the list; false if somebody else did. `cause` is "expired", "closed", "killed".
  bool Remove(const Session& session, std::string_view cause);
  // Oldest first.
  std::vector<std::shared_ptr<Session>> All() const;
  size_t size() const;

  // SESSION_UNKNOWN.
  absl::Status Unknown(std::string_view cause) const;

 private:
  const uint64_t incarnation_;
  mutable absl::Mutex mu_;
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> by_token_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<std::string, std::shared_ptr<Session>> by_id_ ABSL_GUARDED_BY(mu_);
  // Tokens and public ids of ended sessions to the cause, the oldest forgotten first.
  absl::flat_hash_map<std::string, std::string_view> ended_ ABSL_GUARDED_BY(mu_);
  std::deque<std::string> ended_order_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
