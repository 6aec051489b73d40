#include "server/engine/timer.h"

namespace tensord {

Timer::Timer() : thread_([this] { Loop(); }) {}

Timer::~Timer() { Stop(); }

Timer::Id Timer::Schedule(absl::Time when, absl::AnyInvocable<void()> run) {
  if (when == absl::InfiniteFuture()) return 0;
  absl::MutexLock lock(&mu_);
  if (stopping_) return 0;
  const Id id = next_++;
  const bool first = calls_.empty() || when < calls_.begin()->first.first;
  calls_.emplace(Key(when, id), std::move(run));
  times_.emplace(id, when);
  if (first) wake_.Signal();
  return id;
}

void Timer::Cancel(Id id) {
  absl::AnyInvocable<void()> dropped;  // destroyed without the mutex
  absl::MutexLock lock(&mu_);
  const auto it = times_.find(id);
  if (it == times_.end()) return;
  const auto call = calls_.find(Key(it->second, id));
  dropped = std::move(call->second);
  calls_.erase(call);
  times_.erase(it);
  if (times_.size() * 8 < times_.capacity()) times_.rehash(0);
}

void Timer::Post(absl::AnyInvocable<void()> run) {
  {
    absl::MutexLock lock(&mu_);
    if (!ended_) {
      posted_.push_back(std::move(run));
      wake_.Signal();
      return;
    }
  }
  run();
}

void Timer::Stop() {
  std::map<Key, absl::AnyInvocable<void()>> dropped;
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
    dropped.swap(calls_);
    times_.clear();
    wake_.Signal();
  }
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
}

void Timer::Loop() {
  absl::MutexLock lock(&mu_);
  while (true) {
    if (!posted_.empty()) {
      absl::AnyInvocable<void()> run = std::move(posted_.front());
      posted_.pop_front();
      mu_.Unlock();
      run();
      run = nullptr;
      mu_.Lock();
      continue;
    }
    if (stopping_) break;
    if (calls_.empty()) {
      wake_.Wait(&mu_);
      continue;
    }
    const auto first = calls_.begin();
    if (first->first.first > absl::Now()) {
      wake_.WaitWithDeadline(&mu_, first->first.first);
      continue;
    }
    absl::AnyInvocable<void()> run = std::move(first->second);
    times_.erase(first->first.second);
    calls_.erase(first);
    mu_.Unlock();
    run();
    run = nullptr;
    mu_.Lock();
  }
  ended_ = true;
}

}  // namespace tensord
