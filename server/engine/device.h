// A device as the engine drives it: backend, memory stack, executor, and whether it is lost.
//
// Whatever reaches the backend goes through here, so that the first DEVICE_LOST is seen, whichever call it comes from:
// it latches. From then on `lost` is true, every call says the first cause without asking the backend, and every
// storage of the device counts as failed with it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/ops/placement.h"
#include "server/engine/account.h"
#include "server/engine/executor.h"
#include "server/engine/local_engine.h"
#include "server/engine/residency.h"

namespace tensord {

// Thread safe, as the backend and the memory resources are.
class Device {
 public:
  // Told once, on whichever thread finds out, perhaps with locks held.
  using LossHook = std::function<void(Device&)>;

  // `host`: the device that lends memory for what is moved away, where the backend's own is out of the host's reach;
  // null: none.
  Device(uint32_t index, EngineDevice parts, AccountBook& book, Device* host, LossHook on_loss);

  uint32_t index() const { return index_; }
  DeviceId id() const { return id_; }
  const std::string& name() const { return name_; }
  Backend& backend() const { return *parts_.backend; }
  MemoryResource& memory() const { return *memory_; }
  StreamId stream() const { return stream_; }
  bool host_addressable() const { return host_addressable_; }
  Executor& executor() { return *executor_; }
  Residency& residency() { return residency_; }

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // DEVICE_LOST, the first that was seen. With lost().
  const absl::Status& loss() const { return loss_; }
  // OK, or what the backend says. Any thread.
  absl::Status Health();
  // Latches where the status says that this device is lost; returns the status, or the first cause where it is not the
  // first. `op`: what was being done, or empty.
  absl::Status Observe(absl::Status status, std::string_view op);

  // Null for no bytes. Climbs the ladder before it refuses: the cache; memory still in flight; everything cached given
  // back; idle tensors moved to host memory. Errors: MEMORY_EXHAUSTED with a MemoryShortage as far as `account`'s
  // principal may know the holders; DEVICE_LOST.
  absl::StatusOr<void*> Allocate(size_t bytes, const Account& account);
  void Deallocate(void* data, size_t bytes);
  // Memory for another device's bytes: without the ladder's last step. Deallocate takes it back.
  absl::StatusOr<void*> AllocateOffloaded(size_t bytes);

  // Bytes from and to the host, wherever the memory is. `data` is device memory.
  absl::Status Write(void* data, const void* host, size_t bytes);
  absl::Status Read(void* host, const void* data, size_t bytes);

  // The backend's, on its stream, by the executor. `account`: for whom, where temporary memory runs out.
  absl::Status Run(const KernelCall& call, const Account& account);
  absl::Status CopyFrom(Device& source, const void* source_data, void* data, size_t bytes);
  absl::Status Synchronize();
  // True where work may still be going on when Run has returned.
  bool asynchronous() const { return !host_addressable_; }

  int64_t buffers() const { return buffers_.load(std::memory_order_relaxed); }
  int64_t buffer_bytes() const { return buffer_bytes_.load(std::memory_order_relaxed); }

 private:
  class Scratch;
  // The ladder, without counting the block as a buffer.
  absl::StatusOr<void*> TakeBlock(size_t bytes, const Account& account);
  absl::StatusOr<void*> Climb(size_t bytes, absl::Status refusal);
  absl::Status Shortage(size_t bytes, const Account& account) const;
  size_t FreeBytes(const MemoryStats& stats) const;
  void Count(int64_t buffers, size_t bytes);

  const uint32_t index_;
  EngineDevice parts_;
  AccountBook& book_;
  const LossHook on_loss_;
  const DeviceId id_;
  const std::string name_;
  MemoryResource* const memory_;
  const StreamId stream_;
  const bool host_addressable_;
  std::atomic<int64_t> buffers_{0};
  std::atomic<int64_t> buffer_bytes_{0};
  Residency residency_;
  absl::Mutex loss_mu_;
  absl::Status loss_;  // written once, before lost_
  std::atomic<bool> lost_{false};
  std::unique_ptr<Executor> executor_;
};

// All devices, "cpu" first, then by kind and index. Thread safe once made.
class DeviceSet {
 public:
  DeviceSet(std::vector<EngineDevice> devices, AccountBook& book, Device::LossHook on_loss);

  const std::vector<std::unique_ptr<Device>>& all() const { return devices_; }
  Device& cpu() const { return *devices_.front(); }
  Device& at(DeviceId id) const;  // one that exists
  // A name, "" for the CPU. Error: DEVICE_UNKNOWN with the list.
  absl::StatusOr<Device*> Find(std::string_view name) const;
  // A name, UUID or PCI bus id. Error: as Find.
  absl::StatusOr<Device*> FindByAnyName(std::string_view name) const;
  // Find, for kernels/ops/placement.h.
  const DeviceResolver& resolver() const { return resolver_; }

 private:
  absl::Status Unknown(std::string_view name) const;
  std::vector<std::unique_ptr<Device>> devices_;
  DeviceResolver resolver_;
};

}  // namespace tensord
