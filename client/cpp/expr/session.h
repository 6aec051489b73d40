// A session of the caller's own: opened, kept alive by a thread, closed at the end.
//
//   TENSORD_ASSIGN_OR_RETURN(std::shared_ptr<ClientSession> session, ClientSession::Open(engine, {.client =
// "tensorctl/0.1.0"}));
//   session->engine().Execute(session->caller(), request, …);
//
// Handles that nobody needs any more are collected and given back a batch at a time (Collect). Thread safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/engine.h"

namespace tensord::expr {

class ClientSession : public std::enable_shared_from_this<ClientSession> {
 public:
  // `engine` must outlive the session.
  static absl::StatusOr<std::shared_ptr<ClientSession>> Open(Engine& engine, const OpenSessionRequest& request);
  // Closes it on the daemon, which frees its handles.
  ~ClientSession();

  Engine& engine() const { return engine_; }
  const Caller& caller() const { return caller_; }
  const OpenSessionResponse& info() const { return info_; }

  // Ids count up and are never used twice.
  uint64_t NewId() { return next_id_.fetch_add(1, std::memory_order_relaxed); }

  // The handle ends when the last copy of the result goes; the daemon hears of it at the next Collect.
  std::shared_ptr<void> OwnTensor(uint64_t id) { return Own(id, false); }
  std::shared_ptr<void> OwnModel(uint64_t id) { return Own(id, true); }
  // Gives back what ended since the last call. Errors are of no consequence: the handles end with the session.
  void Collect();

 private:
  ClientSession(Engine& engine, OpenSessionResponse info);
  std::shared_ptr<void> Own(uint64_t id, bool model);
  void KeepAlive();

  Engine& engine_;
  const OpenSessionResponse info_;
  Caller caller_;
  std::atomic<uint64_t> next_id_{1};

  absl::Mutex mutex_;
  std::vector<uint64_t> ended_tensors_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> ended_models_ ABSL_GUARDED_BY(mutex_);
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread keep_alive_;
};

}  // namespace tensord::expr
