#include "server/engine/residency.h"

#include <utility>

#include "kernels/core/error.h"
#include "server/engine/device.h"
#include "server/engine/storage.h"

namespace tensord {
namespace {

// A pool hands out blocks a little larger than asked for, so that giving up a storage frees up to this much more.
size_t WithSlack(size_t bytes) { return bytes + bytes / 8 + (size_t{2} << 20); }

}  // namespace

void Residency::Link(Storage& storage, bool oldest) {
  Residence& at = storage.residence_;
  at.idle = true;
  at.before = oldest ? nullptr : newest_;
  at.after = oldest ? oldest_ : nullptr;
  (at.before != nullptr ? at.before->residence_.after : oldest_) = &storage;
  (at.after != nullptr ? at.after->residence_.before : newest_) = &storage;
  idle_bytes_ += storage.bytes();
}

void Residency::Unlink(Storage& storage) {
  Residence& at = storage.residence_;
  if (!at.idle) return;
  at.idle = false;
  (at.before != nullptr ? at.before->residence_.after : oldest_) = at.after;
  (at.after != nullptr ? at.after->residence_.before : newest_) = at.before;
  at.before = at.after = nullptr;
  idle_bytes_ -= storage.bytes();
}

void Residency::Settle(Storage& storage) {
  const Residence& at = storage.residence_;
  if (!at.idle && !at.moving && at.readers == 0 && at.work == 0 && storage.data_ != nullptr) Link(storage, false);
}

void Residency::AwaitStill(const Storage& storage) {
  const auto still = [&storage] { return !storage.residence_.moving; };
  mu_.Await(absl::Condition(&still));
}

void Residency::Add(Storage& storage) {
  absl::MutexLock lock(&mu_);
  Settle(storage);
}

void* Residency::Remove(Storage& storage) {
  absl::MutexLock lock(&mu_);
  AwaitStill(storage);
  Unlink(storage);
  return std::exchange(storage.residence_.host, nullptr);
}

absl::Status Residency::Hold(absl::Span<const Ref<Tensor>> inputs) {
  const auto each = [&](auto f) {
    for (const Ref<Tensor>& in : inputs) {
      if (in && in->storage->device() == &device_) f(*in->storage);
    }
  };
  {
    absl::MutexLock lock(&mu_);
    each([this](Storage& storage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
      AwaitStill(storage);
      Unlink(storage);
      ++storage.residence_.work;
      ++work_;
    });
  }
  // What is there already is held by now: it does not make room for what is not. Only this thread brings back.
  absl::Status status;
  each([&](Storage& storage) {
    if (status.ok() && storage.residence_.host != nullptr) status = BringBack(storage);
  });
  return status;
}

void Residency::Release(absl::Span<const Ref<Tensor>> inputs) {
  absl::MutexLock lock(&mu_);
  for (const Ref<Tensor>& in : inputs) {
    if (!in || in->storage->device() != &device_) continue;
    --in->storage->residence_.work;
    --work_;
    Settle(*in->storage);
  }
}

const void* Residency::BeginRead(Storage& storage) {
  absl::MutexLock lock(&mu_);
  AwaitStill(storage);
  Unlink(storage);
  ++storage.residence_.readers;
  ++readers_;
  return storage.residence_.host;
}

void Residency::EndRead(Storage& storage) {
  absl::MutexLock lock(&mu_);
  --storage.residence_.readers;
  --readers_;
  Settle(storage);
}

bool Residency::CouldHelp(size_t bytes, size_t free, bool on_executor) const {
  absl::MutexLock lock(&mu_);
  return Busy(on_executor) || (idle_bytes_ > 0 && WithSlack(idle_bytes_) + free >= bytes);
}

Storage* Residency::TakeOldest() {
  absl::MutexLock lock(&mu_);
  Storage* const storage = oldest_;
  if (storage == nullptr) return nullptr;
  Unlink(*storage);
  storage->residence_.moving = true;
  ++moves_;
  return storage;
}

absl::StatusOr<bool> Residency::MakeRoom(size_t bytes, bool on_executor) {
  size_t freed = 0;
  while (freed < bytes) {
    Storage* const storage = TakeOldest();
    if (storage == nullptr) break;
    const size_t size = storage->bytes();  // once it has moved it may be gone
    const absl::Status moved = Offload(*storage);
    if (moved.ok()) {
      freed += size;
    } else if (moved.code() != absl::StatusCode::kResourceExhausted) {
      return moved;
    } else {
      return freed > 0;  // the host is full
    }
  }
  if (freed > 0) return true;
  absl::MutexLock lock(&mu_);
  if (oldest_ != nullptr) return true;
  if (!Busy(on_executor)) return false;
  const auto changed = [this, on_executor]()
                           ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) { return oldest_ != nullptr || !Busy(on_executor); };
  mu_.Await(absl::Condition(&changed));
  return true;
}

absl::Status Residency::Offload(Storage& storage) {
  const size_t bytes = storage.bytes();
  absl::StatusOr<void*> host = host_->AllocateOffloaded(bytes);
  // Ordered after whatever the stream still does with these bytes.
  const absl::Status status = host.ok() ? device_.Read(*host, storage.data_, bytes) : host.status();
  void* device_block = nullptr;
  if (status.ok()) {
    storage.MovePlace(*host_);
    device_block = std::exchange(storage.data_, nullptr);
  }
  {
    absl::MutexLock lock(&mu_);
    if (status.ok()) {
      storage.residence_.host = *host;
    } else {
      Link(storage, true);
    }
    storage.residence_.moving = false;
    --moves_;
  }
  if (status.ok()) {
    device_.Deallocate(device_block, bytes);
  } else if (host.ok()) {
    host_->Deallocate(*host, bytes);
  }
  return status;
}

absl::Status Residency::BringBack(Storage& storage) {
  const size_t bytes = storage.bytes();
  TENSORD_ASSIGN_OR_RETURN(void* const data, device_.Allocate(bytes, *storage.origin()));
  {
    absl::MutexLock lock(&mu_);
    storage.residence_.moving = true;
    ++moves_;
    // Readers of the host memory end first; no new ones begin.
    const auto unread = [&storage] { return storage.residence_.readers == 0; };
    mu_.Await(absl::Condition(&unread));
  }
  void* const host = storage.residence_.host;
  const absl::Status status = device_.Write(data, host, bytes);
  if (status.ok()) {
    storage.MovePlace(device_);
    storage.data_ = data;
  }
  {
    absl::MutexLock lock(&mu_);
    if (status.ok()) storage.residence_.host = nullptr;
    storage.residence_.moving = false;
    --moves_;
  }
  if (status.ok()) {
    host_->Deallocate(host, bytes);
  } else {
    device_.Deallocate(data, bytes);
  }
  return status;
}

ReadHold::ReadHold(Storage& storage) : storage_(storage) {
  if (storage.device() == nullptr || !storage.device()->residency().enabled()) return;
  residency_ = &storage.device()->residency();
  host_ = static_cast<const char*>(residency_->BeginRead(storage));
}

ReadHold::~ReadHold() {
  if (residency_ != nullptr) residency_->EndRead(storage_);
}

}  // namespace tensord
