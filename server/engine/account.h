// Who holds device memory: ledger entries that storage points to, so that memory never points into a session.
//
// A session has an account, and so has every published name. Storage is charged to one account at a time; publishing a
// tensor moves its charge to the name, and taking the name away moves it back to where it came from.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "server/engine/ref.h"
#include "server/engine/types.h"

namespace tensord {

class AccountBook;

// One holder. Thread safe.
class Account : public RefCounted<Account> {
 public:
  // `session` is a public id, `name` a published name with workspace; both empty: calls without a session. `book`
  // outlives the account.
  Account(AccountBook& book, std::string principal, std::string session, std::string name);
  ~Account();

  const std::string& principal() const { return principal_; }
  const std::string& session() const { return session_; }
  const std::string& name() const { return name_; }

  // Bytes may be negative: given back. `device` is an index of the engine's list.
  void Charge(uint32_t device, int64_t bytes, int64_t tensors) {
    devices_[device].bytes.fetch_add(bytes, std::memory_order_relaxed);
    devices_[device].tensors.fetch_add(tensors, std::memory_order_relaxed);
  }
  int64_t bytes(uint32_t device) const { return devices_[device].bytes.load(std::memory_order_relaxed); }
  int64_t tensors(uint32_t device) const { return devices_[device].tensors.load(std::memory_order_relaxed); }

 private:
  struct Held {
    std::atomic<int64_t> bytes{0};
    std::atomic<int64_t> tensors{0};
  };
  AccountBook& book_;
  const std::string principal_;
  const std::string session_;
  const std::string name_;
  const std::unique_ptr<Held[]> devices_;
};

// All accounts. Thread safe; takes no other lock.
class AccountBook {
 public:
  explicit AccountBook(size_t devices) : devices_(devices) {}
  size_t devices() const { return devices_; }

  // Largest first, at most `limit`; the rest, and what other principals hold, in one entry without a name at the end.
  std::vector<MemoryHolder> Holders(uint32_t device, const std::string& principal, size_t limit) const;
  // What one principal holds on a device.
  uint64_t Used(uint32_t device, const std::string& principal) const;

 private:
  friend class Account;
  const size_t devices_;
  mutable absl::Mutex mu_;
  absl::flat_hash_set<const Account*> accounts_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tensord
