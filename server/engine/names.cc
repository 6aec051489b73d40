#include "server/engine/names.h"

#include <algorithm>

#include "kernels/core/error.h"
#include "kernels/core/nearest.h"
#include "server/engine/model.h"

namespace tensord {
namespace {

bool IsLetterDigit(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

const void* KeyOf(const Handle& what) {
  return what.model ? static_cast<const void*>(what.model.get()) : what.tensor.get();
}

// Calls f for each storage that a name keeps alive.
template <class F>
void ForEachStorage(const Handle& what, F&& f) {
  if (what.tensor) {
    f(*what.tensor->storage);
  } else {
    const Model::Replicas replicas = what.model->replicas();
    for (const Replica& replica : *replicas) {
      for (const Ref<Tensor>& parameter : replica.parameters) f(*parameter->storage);
    }
  }
}

std::string_view KindOf(const Handle& what) { return what.model ? "model" : "tensor"; }

// Names in messages: at most so much of what a client sent.
std::string Shown(std::string_view name) {
  return name.size() <= 64 ? std::string(name) : StrCat(name.substr(0, 64), "…");
}

}  // namespace

absl::Status NameTable::CheckPart(std::string_view whole, std::string_view part, size_t offset) const {
  size_t position = 0;
  for (; position < part.size(); ++position) {
    const char c = part[position];
    const bool fits = IsLetterDigit(c) || (position > 0 && (c == '.' || c == '-'));
    if (!fits || position >= max_name_bytes_) break;
  }
  if (position == part.size() && !part.empty()) return absl::OkStatus();
  return Error(Reason::kNameInvalid).With("name", Shown(whole)).With("position", offset + position).At("name");
}

absl::Status NameTable::CheckWorkspace(std::string_view workspace) const { return CheckPart(workspace, workspace, 0); }

absl::StatusOr<std::string> NameTable::Qualify(std::string_view name, std::string_view workspace) const {
  const size_t slash = name.find('/');
  if (slash == std::string_view::npos) {
    TENSORD_RETURN_IF_ERROR(CheckPart(name, name, 0));
    return StrCat(workspace, "/", name);
  }
  TENSORD_RETURN_IF_ERROR(CheckPart(name, name.substr(0, slash), 0));
  TENSORD_RETURN_IF_ERROR(CheckPart(name, name.substr(slash + 1), slash + 1));
  return std::string(name);
}

const NameTable::Entry* NameTable::FindLocked(const std::string& full) const {
  const auto it = entries_.find(full);
  if (it == entries_.end() || it->second.expire <= absl::Now()) return nullptr;
  return &it->second;
}

absl::Status NameTable::Unknown(const std::string& full, bool model) const {
  const std::string prefix = full.substr(0, full.find('/') + 1);
  std::vector<std::string_view> known;
  for (auto it = entries_.lower_bound(prefix); it != entries_.end() && it->first.starts_with(prefix); ++it) {
    if (static_cast<bool>(it->second.what.model) == model)
      known.push_back(std::string_view(it->first).substr(prefix.size()));
    if (known.size() >= 10000) break;
  }
  Error error(Reason::kNameUnknown);
  std::move(error).With("name", full).With("kind", model ? "model" : "tensor");
  if (std::string nearest = NearestNames(std::string_view(full).substr(prefix.size()), known); !nearest.empty()) {
    std::move(error).With("nearest", nearest);
  }
  return error.ToStatus();
}

absl::StatusOr<Ref<Tensor>> NameTable::FindTensor(const std::string& full) const {
  absl::ReaderMutexLock lock(&mu_);
  const Entry* entry = FindLocked(full);
  if (entry == nullptr) return Unknown(full, false);
  if (!entry->what.tensor) {
    return Error(Reason::kKindMismatch).With("name", full).With("kind", "model").With("expected", "tensor");
  }
  return entry->what.tensor;
}

absl::StatusOr<Ref<Model>> NameTable::FindModel(const std::string& full) const {
  absl::ReaderMutexLock lock(&mu_);
  const Entry* entry = FindLocked(full);
  if (entry == nullptr) return Unknown(full, true);
  if (!entry->what.model) {
    return Error(Reason::kKindMismatch).With("name", full).With("kind", "tensor").With("expected", "model");
  }
  return entry->what.model;
}

std::optional<NameTable::Entry> NameTable::Find(const std::string& full) const {
  absl::ReaderMutexLock lock(&mu_);
  const Entry* entry = FindLocked(full);
  return entry == nullptr ? std::nullopt : std::optional<Entry>(*entry);
}

absl::Status NameTable::CheckFreeLocked(const Gift& gift) const {
  const Entry* entry = FindLocked(gift.full);
  if (gift.if_version != 0) {
    const int64_t version = entry == nullptr ? -1 : entry->version;
    if (version != gift.if_version) {
      return Error(Reason::kNameChanged)
          .With("name", gift.full)
          .With("expected", gift.if_version)
          .With("version", version);
    }
    return absl::OkStatus();
  }
  if (entry != nullptr && !gift.replace) {
    return Error(Reason::kNameInUse).With("name", gift.full).With("kind", KindOf(entry->what));
  }
  return absl::OkStatus();
}

absl::Status NameTable::CheckFree(const Gift& gift) const {
  absl::ReaderMutexLock lock(&mu_);
  return CheckFreeLocked(gift);
}

void NameTable::Forget(const std::string& full, Entry& entry) {
  const auto [first, last] = by_what_.equal_range(KeyOf(entry.what));
  for (auto it = first; it != last; ++it) {
    if (it->second == full) {
      by_what_.erase(it);
      break;
    }
  }
  // A second name goes on holding it.
  Ref<Account> next;
  if (const auto other = by_what_.find(KeyOf(entry.what)); other != by_what_.end()) {
    next = entries_.find(other->second)->second.account;
  }
  ForEachStorage(entry.what, [&](Storage& storage) { storage.MoveCharge(next); });
}

absl::StatusOr<std::vector<int64_t>> NameTable::Publish(std::vector<Gift> gifts) {
  std::vector<int64_t> versions;
  std::vector<Entry> replaced;  // freed without the mutex
  absl::MutexLock lock(&mu_);
  for (size_t i = 0; i < gifts.size(); ++i) {
    TENSORD_RETURN_IF_ERROR(CheckFreeLocked(gifts[i]));
    for (size_t k = 0; k < i; ++k) {
      if (gifts[k].full == gifts[i].full) {
        return Error(Reason::kNameInUse).With("name", gifts[i].full).With("kind", KindOf(gifts[k].what));
      }
    }
  }
  for (Gift& gift : gifts) {
    int64_t version = last_version_ + 1;
    if (const auto old = entries_.find(gift.full); old != entries_.end()) {
      version = old->second.version + 1;
      Forget(gift.full, old->second);
      replaced.push_back(std::move(old->second));
      entries_.erase(old);
    }
    Entry entry{gift.what, version, gift.expire, MakeRef<Account>(book_, gift.principal, "", gift.full)};
    ForEachStorage(entry.what, [&](Storage& storage) { storage.MoveCharge(entry.account); });
    by_what_.emplace(KeyOf(entry.what), gift.full);
    entries_.emplace(gift.full, std::move(entry));
    versions.push_back(version);
  }
  return versions;
}

absl::StatusOr<std::vector<Handle>> NameTable::Remove(const std::vector<std::string>& full, bool model,
                                                      bool allow_missing) {
  std::vector<Handle> removed;
  std::vector<Entry> gone;  // freed without the mutex
  absl::MutexLock lock(&mu_);
  for (const std::string& name : full) {
    const Entry* entry = FindLocked(name);
    if (entry == nullptr) {
      if (allow_missing) continue;
      return Unknown(name, model);
    }
    if (static_cast<bool>(entry->what.model) != model) {
      return Error(Reason::kKindMismatch)
          .With("name", name)
          .With("kind", KindOf(entry->what))
          .With("expected", model ? "model" : "tensor");
    }
  }
  for (const std::string& name : full) {
    const auto it = entries_.find(name);
    if (it == entries_.end()) continue;  // missing, or named twice
    last_version_ = std::max(last_version_, it->second.version);
    Forget(name, it->second);
    removed.push_back(it->second.what);
    gone.push_back(std::move(it->second));
    entries_.erase(it);
  }
  return removed;
}

void NameTable::Recharge(const Ref<Model>& model) {
  absl::MutexLock lock(&mu_);
  const auto it = by_what_.find(model.get());
  if (it == by_what_.end()) return;
  const Ref<Account> account = entries_.find(it->second)->second.account;
  ForEachStorage({{}, model}, [&](Storage& storage) { storage.MoveCharge(account); });
}

absl::Time NameTable::Expire(absl::Time now) {
  std::vector<Entry> gone;
  absl::Time next = absl::InfiniteFuture();
  absl::MutexLock lock(&mu_);
  for (auto it = entries_.begin(); it != entries_.end();) {
    if (it->second.expire <= now) {
      last_version_ = std::max(last_version_, it->second.version);
      Forget(it->first, it->second);
      gone.push_back(std::move(it->second));
      it = entries_.erase(it);
    } else {
      next = std::min(next, it->second.expire);
      ++it;
    }
  }
  return next;
}

void NameTable::Clear() {
  std::map<std::string, Entry> gone;
  absl::MutexLock lock(&mu_);
  by_what_.clear();
  gone.swap(entries_);
}

std::vector<std::pair<std::string, NameTable::Entry>> NameTable::Page(const std::string& workspace,
                                                                      const std::string& prefix,
                                                                      const std::string& after, size_t limit,
                                                                      bool models) const {
  const std::string begin = StrCat(workspace, "/", prefix);
  const absl::Time now = absl::Now();
  std::vector<std::pair<std::string, Entry>> page;
  absl::ReaderMutexLock lock(&mu_);
  for (auto it = after > begin ? entries_.upper_bound(after) : entries_.lower_bound(begin);
       it != entries_.end() && it->first.starts_with(begin) && page.size() < limit; ++it) {
    if (it->second.expire > now && static_cast<bool>(it->second.what.model) == models) page.push_back(*it);
  }
  return page;
}

std::vector<std::string> NameTable::NamesOf(const void* what) const {
  std::vector<std::string> names;
  absl::ReaderMutexLock lock(&mu_);
  const auto [first, last] = by_what_.equal_range(what);
  for (auto it = first; it != last; ++it) names.push_back(it->second);
  std::sort(names.begin(), names.end());
  return names;
}

size_t NameTable::size() const {
  absl::ReaderMutexLock lock(&mu_);
  return entries_.size();
}

}  // namespace tensord
