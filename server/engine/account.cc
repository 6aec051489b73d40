#include "server/engine/account.h"

#include <algorithm>

namespace tensord {

Account::Account(AccountBook& book, std::string principal, std::string session, std::string name)
    : book_(book),
      principal_(std::move(principal)),
      session_(std::move(session)),
      name_(std::move(name)),
      devices_(std::make_unique<Held[]>(book.devices())) {
  absl::MutexLock lock(&book_.mu_);
  book_.accounts_.insert(this);
}

Account::~Account() {
  absl::MutexLock lock(&book_.mu_);
  book_.accounts_.erase(this);
}

std::vector<MemoryHolder> AccountBook::Holders(uint32_t device, const std::string& principal, size_t limit) const {
  std::vector<MemoryHolder> holders;
  MemoryHolder others;
  {
    absl::MutexLock lock(&mu_);
    for (const Account* account : accounts_) {
      const int64_t bytes = account->bytes(device);
      const int64_t tensors = account->tensors(device);
      if (bytes <= 0 && tensors <= 0) continue;
      const bool own = account->principal() == principal && (!account->session().empty() || !account->name().empty());
      if (own) {
        holders.push_back({account->session(), account->name(), account->principal(), static_cast<uint64_t>(bytes),
                           static_cast<uint64_t>(tensors)});
      } else {
        others.bytes += static_cast<uint64_t>(bytes);
        others.tensors += static_cast<uint64_t>(tensors);
      }
    }
  }
  std::sort(holders.begin(), holders.end(), [](const MemoryHolder& a, const MemoryHolder& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return std::tie(a.name, a.session) < std::tie(b.name, b.session);
  });
  for (size_t i = limit; i < holders.size(); ++i) {
    others.bytes += holders[i].bytes;
    others.tensors += holders[i].tensors;
  }
  if (holders.size() > limit) holders.resize(limit);
  if (others.tensors > 0) holders.push_back(others);
  return holders;
}

uint64_t AccountBook::Used(uint32_t device, const std::string& principal) const {
  int64_t used = 0;
  absl::MutexLock lock(&mu_);
  for (const Account* account : accounts_) {
    if (account->principal() == principal) used += account->bytes(device);
  }
  return used > 0 ? static_cast<uint64_t>(used) : 0;
}

}  // namespace tensord
