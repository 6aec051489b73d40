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

bool Exhausted(const absl::Status& status) { return status.code() == absl::StatusCode::kResourceExhausted; }

uint64_t Amount(int64_t bytes) { return bytes > 0 ? static_cast<uint64_t>(bytes) : 0; }

}  // namespace

// Temporary memory for a kernel: as hard to refuse as memory for tensors.
class Device::Scratch final : public MemoryResource {
 public:
  Scratch(Device& device, const Account& account) : device_(device), account_(account) {}
  absl::StatusOr<void*> Allocate(size_t bytes, StreamId /*stream*/) override {
    return device_.TakeBlock(bytes, account_);
  }
  void Deallocate(void* block, size_t bytes, StreamId stream) override {
    device_.memory_->Deallocate(block, bytes, stream);
  }
  size_t Trim() override { return device_.memory_->Trim(); }
  MemoryStats Stats() const override { return device_.memory_->Stats(); }

 private:
  Device& device_;
  const Account& account_;
};

Device::Device(uint32_t index, EngineDevice parts, AccountBook& book, Device* host, LossHook on_loss)
    : index_(index),
      parts_(std::move(parts)),
      book_(book),
      on_loss_(std::move(on_loss)),
      id_(parts_.backend->Info().id),
      name_(id_.ToString()),
      memory_(TopOf(parts_)),
      stream_(parts_.backend->default_stream()),
      host_addressable_(parts_.backend->host_addressable()),
      residency_(*this, host_addressable_ ? nullptr : host),
      executor_(std::make_unique<Executor>(*this)) {}

absl::Status Device::Observe(absl::Status status, std::string_view op) {
  if (status.ok() || ReasonOf(status) != Reason::kDeviceLost) return status;
  const ErrorDetails details = DetailsOf(status);
  // A copy says so too where it is the other end that is lost.
  if (const std::string_view named = details.Get("device"); !named.empty() && named != name_) return status;
  {
    absl::MutexLock lock(&loss_mu_);
    if (lost()) return loss_;
    // Without ids and labels: whoever uses the device is told, and not whose work it was.
    loss_ = op.empty() ? status : WithOrigin(status, {0, std::string(op), 0, 0, "", 0});
    lost_.store(true, std::memory_order_release);
  }
  if (on_loss_) on_loss_(*this);
  return status;
}

absl::Status Device::Health() {
  if (lost()) return loss_;
  return Observe(backend().Health(), "");
}

void Device::Count(int64_t buffers, size_t bytes) {
  buffers_.fetch_add(buffers, std::memory_order_relaxed);
  buffer_bytes_.fetch_add(buffers * static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

absl::StatusOr<void*> Device::Allocate(size_t bytes, const Account& account) {
  void* data = nullptr;
  if (bytes > 0) {
    TENSORD_ASSIGN_OR_RETURN(data, TakeBlock(bytes, account));
  }
  Count(1, bytes);
  return data;
}

absl::StatusOr<void*> Device::AllocateOffloaded(size_t bytes) {
  absl::StatusOr<void*> block = memory_->Allocate(bytes, stream_);
  if (!block.ok() && Exhausted(block.status()) && memory_->Trim() > 0) block = memory_->Allocate(bytes, stream_);
  if (block.ok()) Count(1, bytes);
  return block;
}

void Device::Deallocate(void* data, size_t bytes) {
  if (data != nullptr) memory_->Deallocate(data, bytes, stream_);
  Count(-1, bytes);
}

absl::StatusOr<void*> Device::TakeBlock(size_t bytes, const Account& account) {
  if (lost()) return loss_;
  absl::StatusOr<void*> block = memory_->Allocate(bytes, stream_);
  if (block.ok()) return block;
  block = Climb(bytes, block.status());
  if (block.ok() || !Exhausted(block.status())) return block;
  return Shortage(bytes, account);
}

absl::StatusOr<void*> Device::Climb(size_t bytes, absl::Status refusal) {
  if (!Exhausted(refusal)) return Observe(std::move(refusal), "");
  const bool on_executor = executor_->OnThread();
  // Work in flight may hold memory that is free in fact; what the pool keeps may be too scattered to be of use.
  if (on_executor) TENSORD_RETURN_IF_ERROR(Synchronize());
  memory_->Trim();
  absl::StatusOr<void*> block = memory_->Allocate(bytes, stream_);
  while (!block.ok() && Exhausted(block.status()) && residency_.enabled()) {
    const MemoryStats stats = memory_->Stats();
    const int64_t most = stats.limit > 0 ? stats.limit : stats.total;
    if (bytes > Amount(most)) break;
    if (!residency_.CouldHelp(bytes, FreeBytes(stats) + Amount(stats.cached), on_executor)) break;
    TENSORD_ASSIGN_OR_RETURN(const bool room, residency_.MakeRoom(bytes, on_executor));
    block = memory_->Allocate(bytes, stream_);
    if (!room) break;
  }
  if (!block.ok()) return Observe(block.status(), "");
  return block;
}

size_t Device::FreeBytes(const MemoryStats& stats) const {
  // What can still be had: what the limit leaves, where there is one, and never more than is free on the device.
  const int64_t room = stats.limit > 0 ? stats.limit - stats.used : stats.total - stats.used;
  return Amount(stats.free >= 0 ? std::min(stats.free, room) : room);
}

absl::Status Device::Shortage(size_t bytes, const Account& account) const {
  const MemoryStats stats = memory_->Stats();
  ErrorShortage shortage;
  shortage.device = name_;
  shortage.requested = bytes;
  shortage.free = FreeBytes(stats);
  shortage.cached = Amount(stats.cached);
  shortage.largest_free = Amount(stats.largest_free);
  shortage.limit = Amount(stats.limit);
  for (const MemoryHolder& h : book_.Holders(index_, account.principal(), kShortageHolders - 1)) {
    shortage.holders.push_back({h.session, h.name, h.principal, h.bytes, h.tensors});
  }
  Error error(Reason::kMemoryExhausted);
  error.With("device", name_).With("requested", bytes).With("free", shortage.free).With("cached", shortage.cached);
  if (shortage.limit > 0) error.With("limit", shortage.limit);
  return std::move(error).Shortage(std::move(shortage));
}

absl::Status Device::Write(void* data, const void* host, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (lost()) return loss_;
  if (!host_addressable_) return Observe(backend().Upload(data, host, bytes, stream_), "upload");
  std::memcpy(data, host, bytes);
  return absl::OkStatus();
}

absl::Status Device::Read(void* host, const void* data, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  if (lost()) return loss_;
  if (!host_addressable_) return Observe(backend().Download(host, data, bytes, stream_), "download");
  std::memcpy(host, data, bytes);
  return absl::OkStatus();
}

absl::Status Device::Run(const KernelCall& call, const Account& account) {
  if (lost()) return loss_;
  Scratch scratch(*this, account);
  return Observe(backend().Run(call, stream_, scratch), RowOf(call.op).name);
}

absl::Status Device::CopyFrom(Device& source, const void* source_data, void* data, size_t bytes) {
  if (lost()) return loss_;
  if (source.lost()) return source.loss();
  const absl::Status status = backend().CopyFrom(source.backend(), source_data, data, bytes, stream_);
  if (ReasonOf(status) != Reason::kDeviceLost) return status;
  const bool other = DetailsOf(status).Get("device") == source.name();
  return (other ? source : *this).Observe(status, RowOf(Op::kTo).name);
}

absl::Status Device::Synchronize() {
  if (lost()) return loss_;
  return Observe(backend().Synchronize(stream_), "");
}

DeviceSet::DeviceSet(std::vector<EngineDevice> devices, AccountBook& book, Device::LossHook on_loss) {
  std::sort(devices.begin(), devices.end(),
            [](const EngineDevice& a, const EngineDevice& b) { return a.backend->Info().id < b.backend->Info().id; });
  for (EngineDevice& parts : devices) {
    const auto index = static_cast<uint32_t>(devices_.size());
    Device* const host = devices_.empty() ? nullptr : &cpu();
    devices_.push_back(std::make_unique<Device>(index, std::move(parts), book, host, on_loss));
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
