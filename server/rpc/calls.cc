#include "server/rpc/calls.h"

#include "kernels/core/error.h"

namespace tensord::rpc {

absl::Status CallRegistry::Refusal() const {
  return Error(Reason::kDraining)
      .With("grace", absl::FormatDuration(grace_))
      .RetryAfterMs(absl::ToInt64Milliseconds(grace_) + 1000);
}

absl::Status CallRegistry::Enter(bool finite) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return Refusal();
  if (!finite) return absl::OkStatus();
  if (finite_ >= max_finite_) {
    return Error(Reason::kQuotaExceeded)
        .With("quota", "calls in flight")
        .With("used", finite_)
        .With("limit", max_finite_)
        .With("requested", 1)
        .RetryAfterMs(100);
  }
  ++finite_;
  return absl::OkStatus();
}

void CallRegistry::Leave(bool finite) {
  if (!finite) return;
  absl::MutexLock lock(&mutex_);
  --finite_;
}

void CallRegistry::Add(LongCall* call) {
  absl::MutexLock lock(&mutex_);
  long_calls_.insert(call);
  if (draining_) call->OnDrain(Refusal());
}

void CallRegistry::Remove(LongCall* call) {
  absl::MutexLock lock(&mutex_);
  long_calls_.erase(call);
}

void CallRegistry::BeginDrain(absl::Duration grace) {
  absl::MutexLock lock(&mutex_);
  if (draining_) return;
  draining_ = true;
  grace_ = grace;
  const absl::Status notice = Refusal();
  for (LongCall* call : long_calls_) call->OnDrain(notice);
}

bool CallRegistry::draining() const {
  absl::MutexLock lock(&mutex_);
  return draining_;
}

bool CallRegistry::AwaitFinite(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto none = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return finite_ == 0; };
  return mutex_.AwaitWithDeadline(absl::Condition(&none), deadline);
}

void CallRegistry::EndAll() {
  absl::MutexLock lock(&mutex_);
  const absl::Status status = Refusal();
  for (LongCall* call : long_calls_) call->EndCall(status);
}

uint32_t CallRegistry::finite() const {
  absl::MutexLock lock(&mutex_);
  return finite_;
}

void Raise(std::atomic<uint64_t>& value, uint64_t at_least) {
  uint64_t now = value.load();
  while (now < at_least && !value.compare_exchange_weak(now, at_least)) {
  }
}

void KnownSessions::Remember(const std::string& token, const std::string& session, uint64_t submitted) {
  absl::MutexLock lock(&mutex_);
  const auto [entry, fresh] = entries_.try_emplace(token);
  if (fresh) {
    entry->second = {session, std::make_shared<std::atomic<uint64_t>>(0)};
    order_.push_back(token);
  }
  Raise(*entry->second.submitted, submitted);
  if (order_.size() <= kMost) return;
  entries_.erase(order_.front());
  order_.pop_front();
}

std::string KnownSessions::Find(const std::string& token) const {
  if (token.empty()) return "";
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(token);
  return found == entries_.end() ? "" : found->second.session;
}

std::shared_ptr<std::atomic<uint64_t>> KnownSessions::Submitted(const std::string& token) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(token);
  return found == entries_.end() ? std::make_shared<std::atomic<uint64_t>>(0) : found->second.submitted;
}

}  // namespace tensord::rpc
