// Tells work that nobody waits for its answer any more: a call was cancelled, a session has ended.
//
//   const Cancellation::Id id = cancellation->Add([](const absl::Status& cause) { … });
//   …
//   cancellation->Remove(id);  // the work has ended by itself
#pragma once

#include <cstdint>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace tensord {

// Thread safe. Callbacks run without its mutex, on the thread that cancels.
class Cancellation {
 public:
  using Id = uint64_t;
  using Callback = absl::AnyInvocable<void(const absl::Status& cause)>;

  // `run` is called once when Cancel is; at once, before Add returns, where it has been already.
  Id Add(Callback run) {
    absl::Status cause;
    {
      absl::MutexLock lock(&mu_);
      if (cause_.ok()) {
        const Id id = next_++;
        callbacks_.emplace(id, std::move(run));
        return id;
      }
      cause = cause_;
    }
    run(cause);
    return 0;
  }

  // Forgets a callback that has not begun; does not wait for one that has.
  void Remove(Id id) {
    Callback dropped;  // destroyed without the mutex
    absl::MutexLock lock(&mu_);
    const auto it = callbacks_.find(id);
    if (it == callbacks_.end()) return;
    dropped = std::move(it->second);
    callbacks_.erase(it);
  }

  // Calls everybody. The first Cancel counts; `cause` is not OK.
  void Cancel(const absl::Status& cause) {
    absl::flat_hash_map<Id, Callback> callbacks;
    {
      absl::MutexLock lock(&mu_);
      if (!cause_.ok()) return;
      cause_ = cause;
      callbacks.swap(callbacks_);
    }
    for (auto& [id, run] : callbacks) run(cause);
  }

  // Why it was cancelled; OK if it was not.
  absl::Status cause() const {
    absl::MutexLock lock(&mu_);
    return cause_;
  }

 private:
  mutable absl::Mutex mu_;
  absl::Status cause_ ABSL_GUARDED_BY(mu_);
  Id next_ ABSL_GUARDED_BY(mu_) = 1;
  absl::flat_hash_map<Id, Callback> callbacks_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
