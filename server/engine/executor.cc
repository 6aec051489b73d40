#include "server/engine/executor.h"

#include <utility>

#include "kernels/core/error.h"
#include "server/engine/device.h"

namespace tensord {
namespace {

// Work taken from a lane at a time. A turn ends sooner once another lane is ready.
constexpr size_t kTurn = 64;

}  // namespace

Executor::Executor(Device& device) : device_(device), thread_([this] { Loop(); }) {}

Executor::~Executor() { Stop(Error(Reason::kCancelled)); }

void Executor::MakeReady(const Ref<Lane>& lane) {
  lane->state_ = Lane::State::kReady;
  lane->blocked_.store(false);
  auto& turns = lane->principal_->turns[device_.index()];
  if (turns.empty()) ring_.push_back(lane->principal_);
  turns.push_back(lane);
  ready_.fetch_add(1, std::memory_order_relaxed);
  if (sleeping_) wake_.Signal();
}

void Executor::Enqueue(const Ref<Lane>& lane, std::vector<WorkPtr>& work) {
  if (work.empty()) return;
  absl::Status stopped;
  lane->pending_.fetch_add(work.size(), std::memory_order_relaxed);
  queued_.fetch_add(work.size(), std::memory_order_relaxed);
  {
    absl::MutexLock lock(&mu_);
    if (!stopping_) {
      for (WorkPtr& w : work) lane->queue_.push_back(std::move(w));
      if (lane->state_ == Lane::State::kIdle) {
        active_.emplace(lane.get(), lane);
        MakeReady(lane);
      }
    } else {
      stopped = stop_cause_;
    }
  }
  if (!stopped.ok()) {
    for (WorkPtr& w : work) {
      Refuse(*lane, *w, stopped);
    }
  }
  work.clear();
}

void Executor::Poke(const Ref<Lane>& lane) { Unblock(lane); }

void Executor::Wake(const Ref<Lane>& lane) {
  if (lane->state_ == Lane::State::kBlocked) {
    MakeReady(lane);
  } else if (lane->state_ == Lane::State::kRunning) {
    lane->poked_ = true;
  }
}

void Executor::Unblock(const Ref<Lane>& lane) {
  absl::MutexLock lock(&mu_);
  Wake(lane);
}

void Executor::WakeAll() {
  absl::MutexLock lock(&mu_);
  for (const auto& [key, lane] : active_) Wake(lane);
}

void Executor::DropCancelled(const Ref<Lane>& lane, const Batch& batch) {
  std::vector<WorkPtr> dropped;
  {
    absl::MutexLock lock(&mu_);
    std::deque<WorkPtr> kept;
    for (WorkPtr& w : lane->queue_) {
      if (w->batch.get() == &batch) {
        dropped.push_back(std::move(w));
      } else {
        kept.push_back(std::move(w));
      }
    }
    lane->queue_ = std::move(kept);
    Wake(lane);
  }
  const absl::Status status = batch.cancel_status();
  for (WorkPtr& w : dropped) {
    Refuse(*lane, *w, status);
  }
}

void Executor::Finish(Lane& lane, Work& work, const WorkResult& result) {
  queued_.fetch_sub(1, std::memory_order_relaxed);
  work.batch->tenant()->WorkDone();
  CompleteWork(device_, work, result);
  lane.pending_.fetch_sub(1, std::memory_order_release);
}

void Executor::Refuse(Lane& lane, Work& work, const absl::Status& cause) {
  Finish(lane, work, RefuseWork(work, cause));
}

bool Executor::Next(Ref<Lane>& lane, std::vector<WorkPtr>& work) {
  absl::MutexLock lock(&mu_);
  while (ring_.empty()) {
    if (stopping_) return false;
    sleeping_ = true;
    wake_.Wait(&mu_);
    sleeping_ = false;
  }
  std::shared_ptr<Principal> principal = std::move(ring_.front());
  ring_.pop_front();
  auto& turns = principal->turns[device_.index()];
  lane = std::move(turns.front());
  turns.pop_front();
  ready_.fetch_sub(1, std::memory_order_relaxed);
  if (!turns.empty()) ring_.push_back(std::move(principal));
  lane->state_ = Lane::State::kRunning;
  lane->poked_ = false;
  while (!lane->queue_.empty() && work.size() < kTurn) {
    work.push_back(std::move(lane->queue_.front()));
    lane->queue_.pop_front();
  }
  return true;
}

void Executor::PutBack(const Ref<Lane>& lane, std::vector<WorkPtr>& work, size_t from, bool blocked) {
  std::deque<WorkPtr> refused;
  absl::Status cause;
  {
    absl::MutexLock lock(&mu_);
    for (size_t i = work.size(); i > from; --i) lane->queue_.push_front(std::move(work[i - 1]));
    work.clear();
    if (stopping_) {
      refused.swap(lane->queue_);
      cause = stop_cause_;
    }
    if (lane->queue_.empty()) {
      lane->state_ = Lane::State::kIdle;
      active_.erase(lane.get());
    } else if (blocked && !lane->poked_) {
      lane->state_ = Lane::State::kBlocked;
    } else {
      MakeReady(lane);
    }
  }
  for (WorkPtr& w : refused) Refuse(*lane, *w, cause);
}

void Executor::RunTurn(const Ref<Lane>& lane, std::vector<WorkPtr>& work) {
  for (size_t i = 0; i < work.size(); ++i) {
    Work& w = *work[i];
    // Unwanted and cancelled work need not wait for its inputs: it is dropped. On a lost device nothing waits.
    if (!w.batch->cancelled() && !Unwanted(w) && !device_.lost()) {
      if (Storage* pending = FirstPending(w)) {
        // Said before looking once more: either this sees that nobody wants the work, or who let go of it sees that the
        // lane is to be poked.
        lane->blocked_.store(true);
        if (!w.batch->cancelled() && !Unwanted(w)) {
          const Ref<Storage> storage(pending);
          PutBack(lane, work, i, /*blocked=*/true);
          storage->OnDone([this, lane] { Unblock(lane); });
          return;
        }
        lane->blocked_.store(false);
      }
    }
    Finish(*lane, w, ComputeWork(device_, w));
    // The next one may take over an input's memory only once this one has let go of it.
    work[i].reset();
    if (ready_.load(std::memory_order_relaxed) > 0) {
      PutBack(lane, work, i + 1, /*blocked=*/false);
      return;
    }
  }
  PutBack(lane, work, work.size(), /*blocked=*/false);
}

void Executor::Loop() {
  Ref<Lane> lane;
  std::vector<WorkPtr> work;
  work.reserve(kTurn);
  while (Next(lane, work)) {
    RunTurn(lane, work);
    lane.reset();
  }
}

bool Executor::WaitIdle(absl::Time deadline) {
  absl::MutexLock lock(&mu_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return active_.empty(); };
  return mu_.AwaitWithDeadline(absl::Condition(&idle), deadline);
}

void Executor::Stop(const absl::Status& cause) {
  std::vector<std::pair<Ref<Lane>, WorkPtr>> dropped;
  {
    absl::MutexLock lock(&mu_);
    if (!stopping_) {
      stopping_ = true;
      stop_cause_ = cause;
    }
    for (auto& [key, lane] : active_) {
      for (WorkPtr& w : lane->queue_) dropped.emplace_back(lane, std::move(w));
      lane->queue_.clear();
      // Blocked lanes get a last, empty turn so that they become idle.
      if (lane->state_ == Lane::State::kBlocked) MakeReady(lane);
    }
    wake_.Signal();
  }
  for (auto& [lane, w] : dropped) {
    Refuse(*lane, *w, cause);
  }
  dropped.clear();
  if (thread_.joinable()) thread_.join();
}

}  // namespace tensord
