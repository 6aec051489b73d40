// Threads for calls that may have to wait: made when needed, at most one a call, gone when idle.
#pragma once

#include <deque>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"

namespace tensord::rpc {

// Thread safe. Bounded by the number of calls that the registry lets in. The destructor waits until everything has run.
class Waiters {
 public:
  Waiters() = default;
  Waiters(const Waiters&) = delete;
  Waiters& operator=(const Waiters&) = delete;
  ~Waiters();

  // Runs `work` on an idle thread, or on a new one.
  void Run(absl::AnyInvocable<void()> work);

 private:
  void Loop();

  absl::Mutex mutex_;
  std::deque<absl::AnyInvocable<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  int idle_ ABSL_GUARDED_BY(mutex_) = 0;     // threads that wait for work
  int threads_ ABSL_GUARDED_BY(mutex_) = 0;  // all
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tensord::rpc
