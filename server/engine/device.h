// A device as the engine drives it: backend, memory stack, executor.
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

namespace tensord {

// Thread safe, as the backend and the memory resources are.
class Device {
 public:
  Device(uint32_t index, EngineDevice parts, AccountBook& book);

  uint32_t index() const { return index_; }
  DeviceId id() const { return id_; }
  const std::string& name() const { return name_; }
  Backend& backend() const { return *parts_.backend; }
  MemoryResource& memory() const { return *memory_; }
  StreamId stream() const { return stream_; }
  bool host_addressable() const { return host_addressable_; }
  Executor& executor() { return *executor_; }

  // Null for no bytes. Climbs the ladder before it refuses: the cache, then memory still in flight, then everything
  // cached given back. Error: MEMORY_EXHAUSTED with a MemoryShortage as far as `account`'s principal may know the
  // holders.
  absl::StatusOr<void*> Allocate(size_t bytes, const Account& account);
  void Deallocate(void* data, size_t bytes);

  // Bytes from and to the host, wherever the memory is. `data` is device memory.
  absl::Status Write(void* data, const void* host, size_t bytes);
  absl::Status Read(void* host, const void* data, size_t bytes);

  int64_t buffers() const { return buffers_.load(std::memory_order_relaxed); }
  int64_t buffer_bytes() const { return buffer_bytes_.load(std::memory_order_relaxed); }

 private:
  const uint32_t index_;
  EngineDevice parts_;
  AccountBook& book_;
  const DeviceId id_;
  const std::string name_;
  MemoryResource* const memory_;
  const StreamId stream_;
  const bool host_addressable_;
  std::atomic<int64_t> buffers_{0};
  std::atomic<int64_t> buffer_bytes_{0};
  std::unique_ptr<Executor> executor_;
};

// All devices, "cpu" first, then by kind and index. Thread safe once made.
class DeviceSet {
 public:
  DeviceSet(std::vector<EngineDevice> devices, AccountBook& book);

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
