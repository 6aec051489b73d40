#include "server/rpc/waiters.h"

#include <thread>
#include <utility>

#include "absl/time/time.h"

namespace tensord::rpc {

namespace {
constexpr absl::Duration kIdle = absl::Seconds(10);
}

Waiters::~Waiters() {
  absl::MutexLock lock(&mutex_);
  ending_ = true;
  const auto gone = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return threads_ == 0; };
  mutex_.Await(absl::Condition(&gone));
}

void Waiters::Run(absl::AnyInvocable<void()> work) {
  bool start = false;
  {
    absl::MutexLock lock(&mutex_);
    queue_.push_back(std::move(work));
    // Every piece of work has a thread of its own: what is queued must not wait behind one that waits for it.
    if (static_cast<size_t>(idle_) < queue_.size()) {
      ++threads_;
      start = true;
    }
  }
  if (start) std::thread([this] { Loop(); }).detach();
}

void Waiters::Loop() {
  absl::MutexLock lock(&mutex_);
  const auto something = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !queue_.empty() || ending_; };
  for (;;) {
    ++idle_;
    mutex_.AwaitWithTimeout(absl::Condition(&something), kIdle);
    --idle_;
    if (queue_.empty()) break;
    absl::AnyInvocable<void()> work = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    work();
    work = nullptr;
    mutex_.Lock();
  }
  --threads_;
}

}  // namespace tensord::rpc
