#include "server/engine/handle_table.h"

#include <algorithm>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Ranges of passed-over ids that are remembered. Beyond, the lowest count as used.
constexpr size_t kMaxSkipped = 4096;
// Below so many slots a table is not worth shrinking.
constexpr size_t kSmallTable = 1024;

}  // namespace

bool HandleTable::Used(uint64_t id) const {
  if (id > highest_) return false;
  auto it = skipped_.upper_bound(id);
  return it == skipped_.begin() || (--it)->second < id;
}

absl::Status HandleTable::CheckNew(uint64_t id) const {
  if (id == 0) return Error(Reason::kFieldInvalid).With("value", 0).With("allowed", "ids from 1 up").At("id");
  if (id > highest_) return absl::OkStatus();
  if (const Handle* handle = Find(id)) {
    Error error(Reason::kHandleInUse);
    std::move(error).With("id", id);
    if (handle->model) return std::move(error).With("spec", "a model");
    if (handle->tensor->known()) return std::move(error).With("spec", handle->tensor->spec.ToString());
    return std::move(error).With("spec", "a failed tensor");
  }
  if (Used(id)) return Error(Reason::kHandleInUse).With("id", id).With("spec", "a tensor that was freed");
  return absl::OkStatus();
}

void HandleTable::Insert(uint64_t id, Handle handle) {
  if (id > highest_) {
    if (id - highest_ > 1) skipped_.emplace(highest_ + 1, id - 1);
    highest_ = id;
    if (skipped_.size() > kMaxSkipped) skipped_.erase(skipped_.begin());
  } else if (auto it = skipped_.upper_bound(id); it != skipped_.begin()) {
    --it;
    const auto [first, last] = *it;
    if (id <= last) {
      skipped_.erase(it);
      if (first < id) skipped_.emplace(first, id - 1);
      if (id < last) skipped_.emplace(id + 1, last);
    }
  }
  handles_.emplace(id, std::move(handle));
}

std::optional<Handle> HandleTable::Erase(uint64_t id) {
  const auto it = handles_.find(id);
  if (it == handles_.end()) return std::nullopt;
  std::optional<Handle> handle = std::move(it->second);
  handles_.erase(it);
  if (handles_.capacity() > kSmallTable && handles_.size() * 16 < handles_.capacity()) handles_.rehash(0);
  return handle;
}

void HandleTable::Withdraw(uint64_t id) {
  if (Erase(id)) skipped_.emplace(id, id);
}

absl::Status HandleTable::Unknown(uint64_t id, std::string_view kind) const {
  return Error(Reason::kHandleUnknown).With("id", id).With("kind", kind).With("state", Used(id) ? "freed" : "never");
}

std::vector<uint64_t> HandleTable::Page(uint64_t after, size_t limit) const {
  std::vector<uint64_t> ids;
  for (const auto& [id, handle] : handles_) {
    if (id > after) ids.push_back(id);
  }
  const size_t n = std::min(limit, ids.size());
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(n), ids.end());
  ids.resize(n);
  return ids;
}

absl::flat_hash_map<uint64_t, Handle> HandleTable::Take() {
  absl::flat_hash_map<uint64_t, Handle> all;
  all.swap(handles_);
  return all;
}

}  // namespace tensord
