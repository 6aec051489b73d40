#include "server/engine/device.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/error.h"

namespace tensord {
namespace {

// Holders that a refusal names.
constexpr size_t kShortageHolders = 8;

MemoryResource* TopOf(const EngineDevice& parts) {
  return parts.stack.empty() ? &parts.backend->memory() : parts.stack.back().get();
}

}  // namespace

Device::Device(uint32_t index, EngineDevice parts, AccountBook& book)
    : index_(index),
      parts_(std::move(parts)),
      book_(book),
      id_(parts_.backend->Info().id),
      name_(id_.ToString()),
      memory_(TopOf(parts_)),
      stream_(parts_.backend->default_stream()),
      host_addressable_(parts_.backend->host_addressable()),
      executor_(std::make_unique<Executor>(*this)) {}

absl::StatusOr<void*> Device::Allocate(size_t bytes, const Account& account) {
  void* data = nullptr;
  if (bytes > 0) {
    absl::StatusOr<void*> block = memory_->Allocate(bytes, stream_);
    if (!block.ok() && block.status().code() == absl::StatusCode::kResourceExhausted) {
      // Work in flight may hold memory that is free in fact; what the pool keeps may be too scattered to be of use.
      if (backend().Synchronize(stream_).ok()) memory_->Trim();
      block = memory_->Allocate(bytes, stream_);
    }
    if (!block.ok()) {
      if (block.status().code() != absl::StatusCode::kResourceExhausted) return block.status();
      const MemoryStats stats = memory_->Stats();
      const auto amount = [](int64_t n) { return n > 0 ? static_cast<uint64_t>(n) : 0; };
      ErrorShortage shortage;
      shortage.device = name_;
      shortage.requested = bytes;
      // What can still be had: what the limit leaves, where there is one, and never more than is free on the device.
      const int64_t room = stats.limit > 0 ? stats.limit - stats.used : stats.total - stats.used;
      shortage.free = amount(stats.free >= 0 ? std::min(stats.free, room) : room);
      shortage.cached = amount(stats.cached);
      shortage.largest_free = amount(stats.largest_free);
      shortage.limit = amount(stats.limit);
      for (const MemoryHolder& h : book_.Holders(index_, account.principal(), kShortageHolders - 1)) {
        shortage.holders.push_back({h.session, h.name, h.principal, h.bytes, h.tensors});
      }
      Error error(Reason::kMemoryExhausted);
      std::move(error)
          .With("device", name_)
          .With("requested", bytes)
          .With("free", shortage.free)
          .With("cached", shortage.cached);
      if (shortage.limit > 0) std::move(error).With("limit", shortage.limit);
      return std::move(error).Shortage(std::move(shortage));
    }
    data = *block;
  }
  buffers_.fetch_add(1, std::memory_order_relaxed);
  buffer_bytes_.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  return data;
}

void Device::Deallocate(void* data, size_t bytes) {
  if (data != nullptr) memory_->Deallocate(data, bytes, stream_);
  buffers_.fetch_sub(1, std::memory_order_relaxed);
  buffer_bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

absl::Status Device::Write(void* data, const void* host, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (!host_addressable_) return backend().Upload(data, host, bytes, stream_);
  std::memcpy(data, host, bytes);
  return absl::OkStatus();
}

absl::Status Device::Read(void* host, const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (!host_addressable_) return backend().Download(host, data, bytes, stream_);
  std::memcpy(host, data, bytes);
  return absl::OkStatus();
}

DeviceSet::DeviceSet(std::vector<EngineDevice> devices, AccountBook& book) {
  std::sort(devices.begin(), devices.end(),
            [](const EngineDevice& a, const EngineDevice& b) { return a.backend->Info().id < b.backend->Info().id; });
  for (EngineDevice& parts : devices) {
    const auto index = static_cast<uint32_t>(devices_.size());
    devices_.push_back(std::make_unique<Device>(index, std::move(parts), book));
  }
  resolver_ = [this](std::string_view name) -> absl::StatusOr<DeviceId> {
    TENSORD_ASSIGN_OR_RETURN(Device * device, Find(name));
    return device->id();
  };
}

Device& DeviceSet::at(DeviceId id) const {
  for (const auto& device : devices_) {
    if (device->id() == id) return *device;
  }
  return cpu();
}

absl::Status DeviceSet::Unknown(std::string_view name) const {
  std::vector<std::string_view> known;
  for (const auto& device : devices_) known.push_back(device->name());
  return Error(Reason::kDeviceUnknown).With("device", name).With("known", StrJoin(known, ", "));
}

absl::StatusOr<Device*> DeviceSet::Find(std::string_view name) const {
  if (const auto id = DeviceId::Parse(name)) {
    for (const auto& device : devices_) {
      if (device->id() == *id) return device.get();
    }
  }
  return Unknown(name);
}

absl::StatusOr<Device*> DeviceSet::FindByAnyName(std::string_view name) const {
  for (const auto& device : devices_) {
    const DeviceInfo& info = device->backend().Info();
    if ((info.uuid && *info.uuid == name) || (info.pci_bus_id && *info.pci_bus_id == name)) return device.get();
  }
  return Find(name);
}

}  // namespace tensord
