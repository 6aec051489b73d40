// One thread that calls functions later: deadlines, leases, names that end. Functions must be short.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace tensord {

// Thread safe. Functions are called without its mutex, one at a time.
class Timer {
 public:
  using Id = uint64_t;
  Timer();
  ~Timer();

  // Calls `run` at `when`, or as soon as possible if that is past. InfiniteFuture: never (returns 0).
  Id Schedule(absl::Time when, absl::AnyInvocable<void()> run);
  // Forgets a call that has not begun; does not wait for one that has.
  void Cancel(Id id);
  // Calls `run` as soon as possible, never dropped: for what may not be done under the caller's locks. After Stop: at
  // once.
  void Post(absl::AnyInvocable<void()> run);
  // Runs what was posted, drops what is scheduled, ends the thread. Idempotent; later calls of Schedule are dropped.
  void Stop();

 private:
  void Loop();
  using Key = std::pair<absl::Time, Id>;
  absl::Mutex mu_;
  absl::CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;  // the thread takes nothing more
  Id next_ ABSL_GUARDED_BY(mu_) = 1;
  std::map<Key, absl::AnyInvocable<void()>> calls_ ABSL_GUARDED_BY(mu_);
  std::deque<absl::AnyInvocable<void()>> posted_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<Id, absl::Time> times_ ABSL_GUARDED_BY(mu_);
  std::thread thread_;
};

}  // namespace tensord
