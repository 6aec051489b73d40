// Published names: "workspace/name" to a tensor or a model, which outlive their session there.
//
// Thread safe. Lock order: a session's mutex, then this one; it takes those of accounts and storage.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/engine/account.h"
#include "server/engine/handle_table.h"

namespace tensord {

class NameTable {
 public:
  struct Entry {
    Handle what;
    int64_t version = 0;
    absl::Time expire = absl::InfiniteFuture();
    Ref<Account> account;
  };
  // One name to give. `full` is qualified and valid.
  struct Gift {
    std::string full;
    Handle what;
    bool replace = false;
    int64_t if_version = 0;
    absl::Time expire = absl::InfiniteFuture();
    std::string principal;
  };

  NameTable(AccountBook& book, uint32_t max_name_bytes) : book_(book), max_name_bytes_(max_name_bytes) {}

  // "x" becomes "workspace/x"; "w/x" stays. Error: NAME_INVALID with the position.
  absl::StatusOr<std::string> Qualify(std::string_view name, std::string_view workspace) const;
  // One part alone. Error: as Qualify.
  absl::Status CheckWorkspace(std::string_view workspace) const;

  // What a name stands for. Error: NAME_UNKNOWN with the nearest of the same kind, KIND_MISMATCH.
  absl::StatusOr<Ref<Tensor>> FindTensor(const std::string& full) const;
  absl::StatusOr<Ref<Model>> FindModel(const std::string& full) const;
  std::optional<Entry> Find(const std::string& full) const;

  // Whether Publish would succeed now. Error: NAME_IN_USE, NAME_CHANGED.
  absl::Status CheckFree(const Gift& gift) const;
  // All or nothing; returns the versions. Errors: as CheckFree.
  absl::StatusOr<std::vector<int64_t>> Publish(std::vector<Gift> gifts);
  // Takes names away, all or nothing; returns what they stood for. `model` says which kind is expected. Error:
  // NAME_UNKNOWN (not with allow_missing), KIND_MISMATCH.
  absl::StatusOr<std::vector<Handle>> Remove(const std::vector<std::string>& full, bool model, bool allow_missing);
  // A model has new parameters: charges them to its name, where it has one.
  void Recharge(const Ref<Model>& model);
  // Takes away what has expired; returns when the next one does.
  absl::Time Expire(absl::Time now);
  void Clear();

  // Names of a workspace that begin with prefix, above `after`, ascending, at most `limit`, of one kind.
  std::vector<std::pair<std::string, Entry>> Page(const std::string& workspace, const std::string& prefix,
                                                  const std::string& after, size_t limit, bool models) const;
  // Names of a tensor or model.
  std::vector<std::string> NamesOf(const void* what) const;
  size_t size() const;

 private:
  absl::Status CheckPart(std::string_view whole, std::string_view part, size_t offset) const;
  absl::Status CheckFreeLocked(const Gift& gift) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  absl::Status Unknown(const std::string& full, bool model) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  const Entry* FindLocked(const std::string& full) const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  // Moves the charge of what the entry stands for back to where it came from.
  void Forget(const std::string& full, Entry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  AccountBook& book_;
  const uint32_t max_name_bytes_;
  mutable absl::Mutex mu_;
  std::map<std::string, Entry> entries_ ABSL_GUARDED_BY(mu_);
  std::multimap<const void*, std::string> by_what_ ABSL_GUARDED_BY(mu_);
  // Versions of names that went: a name that comes again counts on from here, so that if_version cannot be fooled.
  int64_t last_version_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace tensord
