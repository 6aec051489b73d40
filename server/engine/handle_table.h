// The handles of a session: ids to tensors and models.
//
// Ids count upward and are never used twice: the table remembers the highest one seen, and the ranges below it that
// were passed over. A client with several threads may use a lower id a little later than a higher one; an id that was
// used and is gone stays gone.
//
// Not thread safe: the session's mutex guards it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "server/engine/model.h"
#include "server/engine/ref.h"
#include "server/engine/storage.h"

namespace tensord {

// One of the two.
struct Handle {
  Ref<Tensor> tensor;
  Ref<Model> model;
};

class HandleTable {
 public:
  // Null where there is none.
  const Handle* Find(uint64_t id) const {
    const auto it = handles_.find(id);
    return it == handles_.end() ? nullptr : &it->second;
  }
  // OK where the id is new. Error: HANDLE_IN_USE (live, or used before), FIELD_INVALID (0).
  absl::Status CheckNew(uint64_t id) const;
  // CheckNew said OK.
  void Insert(uint64_t id, Handle handle);
  // Empty where there is none.
  std::optional<Handle> Erase(uint64_t id);
  // Erase, as if the id had never been used: for what was refused after all.
  void Withdraw(uint64_t id);
  // HANDLE_UNKNOWN with its state: "freed" if the id was used, else "never". `kind` is "tensor", "model", "program".
  absl::Status Unknown(uint64_t id, std::string_view kind) const;

  uint64_t highest() const { return highest_; }
  size_t size() const { return handles_.size(); }
  // Ids above `after`, ascending, at most `limit`.
  std::vector<uint64_t> Page(uint64_t after, size_t limit) const;
  // Everything, by id; the table is empty afterwards.
  absl::flat_hash_map<uint64_t, Handle> Take();
  template <class F>
  void ForEach(F&& f) const {
    for (const auto& [id, handle] : handles_) f(id, handle);
  }

 private:
  bool Used(uint64_t id) const;
  absl::flat_hash_map<uint64_t, Handle> handles_;
  uint64_t highest_ = 0;
  std::map<uint64_t, uint64_t> skipped_;  // first to last of each range never used, none above highest_
};

}  // namespace tensord
