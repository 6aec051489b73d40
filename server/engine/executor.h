// The executor of a device: one thread that runs the work of all tenants, fairly.
//
// A lane is one tenant's queue on one device: first in, first out. Turns go round over principals, then over a
// principal's lanes; where others wait a turn is one piece of work. Work whose inputs are not there yet (an upload,
// another device) blocks its own lane alone.
//
// Thread safe. Lock order: a session's mutex may be held when calling in; the executor computes, and calls waiters and
// markers, without its mutex.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/ref.h"
#include "server/engine/tenant.h"
#include "server/engine/work.h"

namespace tensord {

class Device;

// A tenant's queue on a device. Lives as long as somebody refers to it; the executor does while it is not idle.
class Lane : public RefCounted<Lane> {
 public:
  explicit Lane(std::shared_ptr<Principal> principal) : principal_(std::move(principal)) {}
  // True while work is queued or running.
  bool busy() const { return pending_.load(std::memory_order_acquire) > 0; }
  // True while its head waits for an input, or is about to. Who made work unwanted first and then finds false need not poke.
  bool blocked() const { return blocked_.load(); }

 private:
  friend class Executor;
  enum class State : uint8_t { kIdle, kReady, kRunning, kBlocked };
  const std::shared_ptr<Principal> principal_;
  std::atomic<uint64_t> pending_{0};
  std::atomic<bool> blocked_{false};
  // Guarded by the executor's mutex.
  State state_ = State::kIdle;
  bool poked_ = false;  // while running: do not block without looking again
  std::deque<WorkPtr> queue_;
};

class Executor {
 public:
  // Starts the thread. The device outlives the executor.
  explicit Executor(Device& device);
  ~Executor();

  // Appends work in order and wakes the thread once. `work` is left empty. After Stop the work fails at once.
  void Enqueue(const Ref<Lane>& lane, std::vector<WorkPtr>& work);
  // Looks at a blocked lane again: its head may have become unwanted or cancelled.
  void Poke(const Ref<Lane>& lane);
  // Looks at all lanes again: the device is lost, and nothing waits for its inputs any more.
  void WakeAll();
  // True on the executor's own thread.
  bool OnThread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Fails the batch's queued work (cancelled before the call) and goes on.
  void DropCancelled(const Ref<Lane>& lane, const Batch& batch);

  // Work that waits or runs.
  uint64_t queued() const { return queued_.load(std::memory_order_relaxed); }
  // Waits until nothing waits or runs, or until the deadline; returns whether so.
  bool WaitIdle(absl::Time deadline);
  // Fails what is queued with `cause` and ends the thread. Idempotent.
  void Stop(const absl::Status& cause);

 private:
  void Loop();
  // Takes the next lane's work; false once stopped.
  bool Next(Ref<Lane>& lane, std::vector<WorkPtr>& work) ABSL_LOCKS_EXCLUDED(mu_);
  void RunTurn(const Ref<Lane>& lane, std::vector<WorkPtr>& work) ABSL_LOCKS_EXCLUDED(mu_);
  void PutBack(const Ref<Lane>& lane, std::vector<WorkPtr>& work, size_t from, bool blocked) ABSL_LOCKS_EXCLUDED(mu_);
  void MakeReady(const Ref<Lane>& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes a blocked lane ready; one that runs will look at its head once more before it blocks.
  void Wake(const Ref<Lane>& lane) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The head's input is there.
  void Unblock(const Ref<Lane>& lane) ABSL_LOCKS_EXCLUDED(mu_);
  // Counts the work as ended, then tells who waits for it.
  void Finish(Lane& lane, Work& work, const WorkResult& result);
  void Refuse(Lane& lane, Work& work, const absl::Status& cause);

  Device& device_;
  std::atomic<uint64_t> queued_{0};
  std::atomic<uint32_t> ready_{0};  // lanes that wait for a turn
  absl::Mutex mu_;
  absl::CondVar wake_;
  bool sleeping_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status stop_cause_ ABSL_GUARDED_BY(mu_);
  std::deque<std::shared_ptr<Principal>> ring_ ABSL_GUARDED_BY(mu_);   // principals with a lane ready, each once
  absl::flat_hash_map<Lane*, Ref<Lane>> active_ ABSL_GUARDED_BY(mu_);  // lanes that are not idle
  std::thread thread_;
};

}  // namespace tensord
