// Where the bytes of a device's storages are. On a device whose memory the host cannot address, storages that are ready
// and that nobody uses can be moved to host memory to make room ("offloaded"), the least recently used first; they come
// back when work needs them, bit for bit.
//
// A storage with memory is idle (linked here in order of use), held (by work of the device's executor, which needs it on
// the device, or by readers, who take it where it is) or moving. Only what is idle is moved away. Storages that are
// still being filled are unknown here.
//
//   TENSORD_RETURN_IF_ERROR(residency.Hold(work.inputs));   // executor: on the device until Release
//   …
//   residency.Release(work.inputs);
//
// Thread safe. The mutex is held for a few instructions, and no other is taken under it. Nobody waits here for a holder
// that could wait for him: readers and movers allocate nothing on the device, and an executor holds storages of its own
// device alone.
#pragma once

#include <cstddef>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/engine/ref.h"

namespace tensord {

class Device;
class Storage;
struct Tensor;

// What a storage knows of it; the device's Residency guards it.
struct Residence {
  Storage* before = nullptr;  // used earlier
  Storage* after = nullptr;
  void* host = nullptr;  // the bytes, while they are in host memory
  bool idle = false;     // linked
  bool moving = false;
  uint32_t readers = 0;
  uint32_t work = 0;
};

class Residency {
 public:
  // `host` gives the memory for what is moved away; null: nothing is ever moved, and no other method is called.
  Residency(Device& device, Device* host) : device_(device), host_(host) {}

  bool enabled() const { return host_ != nullptr; }
  Device* host() const { return host_; }

  // The storage has its values, on the device.
  void Add(Storage& storage);
  // The storage is about to give up its memory. Waits for a move that is under way; returns the host memory that holds
  // the bytes, or null where they are on the device.
  void* Remove(Storage& storage);

  // Keeps the inputs that belong to this device on it, after bringing back what is not there. On the executor. Release
  // must follow, whatever the result. Errors: MEMORY_EXHAUSTED, DEVICE_LOST.
  absl::Status Hold(absl::Span<const Ref<Tensor>> inputs);
  void Release(absl::Span<const Ref<Tensor>> inputs);

  // Keeps the bytes where they are, for a reader: host memory, or null where they are on the device.
  const void* BeginRead(Storage& storage);
  void EndRead(Storage& storage);

  // Whether moving storages away could make room for `bytes` where `free` are free already.
  bool CouldHelp(size_t bytes, size_t free, bool on_executor) const;
  // Moves idle storages away until so much has become free, at least one; where none is idle, waits until that changes.
  // False where no room is to be had. Error: DEVICE_LOST.
  absl::StatusOr<bool> MakeRoom(size_t bytes, bool on_executor);

 private:
  void Link(Storage& storage, bool oldest) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Unlink(Storage& storage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Idle again, if it is.
  void Settle(Storage& storage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AwaitStill(const Storage& storage) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Somebody else uses storages who will let go of them.
  bool Busy(bool on_executor) const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return moves_ > 0 || readers_ > 0 || (!on_executor && work_ > 0);
  }
  Storage* TakeOldest();
  absl::Status Offload(Storage& storage);
  absl::Status BringBack(Storage& storage);

  Device& device_;
  Device* const host_;
  mutable absl::Mutex mu_;
  Storage* oldest_ ABSL_GUARDED_BY(mu_) = nullptr;
  Storage* newest_ ABSL_GUARDED_BY(mu_) = nullptr;
  size_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint32_t moves_ ABSL_GUARDED_BY(mu_) = 0;    // under way
  uint32_t readers_ ABSL_GUARDED_BY(mu_) = 0;  // holds of readers
  uint32_t work_ ABSL_GUARDED_BY(mu_) = 0;     // holds of the executor
};

// A reader's hold, while it lives. Does nothing on a device that moves nothing.
class ReadHold {
 public:
  explicit ReadHold(Storage& storage);
  ReadHold(const ReadHold&) = delete;
  ReadHold& operator=(const ReadHold&) = delete;
  ~ReadHold();
  // Begin of the storage's bytes in host memory, or null where they are on the device.
  const char* host() const { return host_; }

 private:
  Storage& storage_;
  Residency* residency_ = nullptr;
  const char* host_ = nullptr;
};

}  // namespace tensord
