#include "server/engine/session.h"

#include <algorithm>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Ended sessions whose cause is remembered, two keys each.
constexpr size_t kMaxEnded = 8192;

}  // namespace

void Session::Renew(absl::Time now) {
  int64_t old = expire_ns.load(std::memory_order_relaxed);
  const int64_t until = absl::ToUnixNanos(now + lease);
  while (old != kNever && old < until && !expire_ns.compare_exchange_weak(old, until)) {
  }
}

std::vector<Session::AfterWaiter> Session::TakeReady() {
  std::vector<AfterWaiter> ready;
  for (size_t i = 0; i < after.size();) {
    if (after[i].sequence < next_sequence) {
      ready.push_back(std::move(after[i]));
      after.erase(after.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  return ready;
}

void SessionRegistry::Add(std::shared_ptr<Session> session) {
  absl::MutexLock lock(&mu_);
  by_id_.emplace(session->id, session);
  by_token_.emplace(session->token, std::move(session));
}

absl::Status SessionRegistry::Unknown(std::string_view cause) const {
  return Error(Reason::kSessionUnknown).With("cause", cause).With("incarnation", incarnation_);
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::Find(const std::string& token,
                                                               const std::string& principal) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto it = by_token_.find(token);
  if (it != by_token_.end() && it->second->tenant->principal->name == principal) return it->second;
  if (it != by_token_.end()) return Unknown("unknown");
  const auto ended = ended_.find(token);
  return Unknown(ended == ended_.end() ? "unknown" : ended->second);
}

absl::StatusOr<std::shared_ptr<Session>> SessionRegistry::FindPublic(const std::string& id,
                                                                     const std::string& principal) const {
  absl::ReaderMutexLock lock(&mu_);
  const auto it = by_id_.find(id);
  if (it != by_id_.end() && it->second->tenant->principal->name == principal) return it->second;
  if (it != by_id_.end()) return Unknown("unknown");
  const auto ended = ended_.find(id);
  return Unknown(ended == ended_.end() ? "unknown" : ended->second);
}

bool SessionRegistry::Remove(const Session& session, std::string_view cause) {
  absl::MutexLock lock(&mu_);
  if (by_id_.erase(session.id) == 0) return false;
  by_token_.erase(session.token);
  for (const std::string& key : {session.id, session.token}) {
    ended_.emplace(key, cause);
    ended_order_.push_back(key);
  }
  while (ended_order_.size() > kMaxEnded) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
  return true;
}

std::vector<std::shared_ptr<Session>> SessionRegistry::All() const {
  std::vector<std::shared_ptr<Session>> all;
  {
    absl::ReaderMutexLock lock(&mu_);
    for (const auto& [id, session] : by_id_) all.push_back(session);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::tie(a->open_time, a->id) < std::tie(b->open_time, b->id); });
  return all;
}

size_t SessionRegistry::size() const {
  absl::ReaderMutexLock lock(&mu_);
  return by_id_.size();
}

}  // namespace tensord
