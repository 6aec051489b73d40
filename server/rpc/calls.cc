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

void SessionNames::Remember(const std::string& token, const std::string& session) {
  absl::MutexLock lock(&mutex_);
  if (!names_.try_emplace(token, session).second) return;
  order_.push_back(token);
  if (order_.size() <= kMost) return;
  names_.erase(order_.front());
  order_.pop_front();
}

std::string SessionNames::Find(const std::string& token) const {
  if (token.empty()) return "";
  absl::MutexLock lock(&mutex_);
  const auto found = names_.find(token);
  return found == names_.end() ? "" : found->second;
}

}  // namespace tensord::rpc
