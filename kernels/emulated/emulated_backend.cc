#include "kernels/emulated/emulated_backend.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "kernels/cpu/cpu_backend.h"

namespace tensord {
namespace {

// Host memory, no more of it than the device is said to have. Counted by pages, as a device does.
class BoundedMemory final : public MemoryResource {
 public:
  BoundedMemory(MemoryResource& host, DeviceId device, size_t bytes) : host_(host), device_(device), total_(bytes) {}

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override {
    const size_t pages = Pages(bytes);
    {
      absl::MutexLock lock(&mutex_);
      if (bytes > total_ || pages > total_ - used_) return Refuse(bytes, total_ - used_);
      used_ += pages;
      peak_ = std::max(peak_, used_);
      ++allocations_;
    }
    absl::StatusOr<void*> block = host_.Allocate(bytes, stream);
    if (!block.ok()) {
      absl::MutexLock lock(&mutex_);
      used_ -= pages;
      --allocations_;
      return Refuse(bytes, total_ - used_);
    }
    return block;
  }

  void Deallocate(void* block, size_t bytes, StreamId stream) override {
    host_.Deallocate(block, bytes, stream);
    absl::MutexLock lock(&mutex_);
    used_ -= Pages(bytes);
  }

  MemoryStats Stats() const override {
    absl::MutexLock lock(&mutex_);
    MemoryStats stats;
    stats.total = static_cast<int64_t>(total_);
    stats.free = static_cast<int64_t>(total_ - used_);
    stats.used = static_cast<int64_t>(used_);
    stats.peak = static_cast<int64_t>(peak_);
    stats.largest_free = stats.free;
    stats.allocations = allocations_;
    return stats;
  }

 private:
  static size_t Pages(size_t bytes) {
    constexpr size_t kPage = 4096;
    return bytes / kPage * kPage + (bytes % kPage != 0 ? kPage : 0);
  }

  absl::Status Refuse(size_t bytes, size_t free) const {
    ErrorShortage shortage;
    shortage.device = device_.ToString();
    shortage.requested = bytes;
    shortage.free = free;
    shortage.largest_free = free;
    shortage.limit = total_;
    return Error(Reason::kMemoryExhausted)
        .With("device", device_.ToString())
        .With("requested", bytes)
        .With("free", free)
        .With("cached", 0)
        .Shortage(shortage);
  }

  MemoryResource& host_;
  const DeviceId device_;
  const size_t total_;
  mutable absl::Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
};

DeviceInfo EmulatedInfo(uint32_t index) {
  DeviceInfo info;
  info.id = DeviceId{DeviceKind::kCuda, index};
  info.model = "Emulated CUDA device";
  char text[64];
  // Made up, but the same at every start: identity is what uuid and bus id are for.
  std::snprintf(text, sizeof(text), "GPU-e3a1c0de-0000-4000-8000-%012x", index);
  info.uuid = text;
  std::snprintf(text, sizeof(text), "%04x:%02x:00.0", index / 255, index % 255 + 1);
  info.pci_bus_id = text;
  info.emulated = true;
  return info;
}

class EmulatedBackend final : public Backend {
 public:
  explicit EmulatedBackend(const EmulatedOptions& options)
      : info_(EmulatedInfo(options.index)),
        cpu_(MakeCpuBackend({})),
        memory_(cpu_->memory(), info_.id, options.memory_bytes) {
    info_.compute_units = cpu_->Info().compute_units;
  }

  const DeviceInfo& Info() const override { return info_; }
  DeviceTelemetry Telemetry() override { return {}; }  // nothing to measure
  absl::Status Health() override { return cpu_->Health(); }
  MemoryResource& memory() override { return memory_; }
  bool host_addressable() const override { return false; }
  bool Supports(Op op, Dtype compute) const override { return cpu_->Supports(op, compute); }
  StreamId default_stream() const override { return cpu_->default_stream(); }

  absl::Status Run(const KernelCall& call, StreamId stream, MemoryResource& scratch) override {
    absl::Status status = cpu_->Run(call, stream, scratch);
    // What the CPU backend says of itself holds for this device.
    if (!status.ok() && ReasonOf(status) == Reason::kOpUnsupported) {
      const ErrorDetails details = DetailsOf(status);
      return Error(Reason::kOpUnsupported)
          .With("op", details.Get("op"))
          .With("dtype", details.Get("dtype"))
          .With("device", info_.id.ToString())
          .With("supported", details.Get("supported"));
    }
    return status;
  }
  absl::Status Upload(void* device, const void* host, size_t bytes, StreamId stream) override {
    return cpu_->Upload(device, host, bytes, stream);
  }
  absl::Status Download(void* host, const void* device, size_t bytes, StreamId stream) override {
    return cpu_->Download(host, device, bytes, stream);
  }
  absl::Status CopyFrom(Backend& source, const void* source_data, void* data, size_t bytes, StreamId stream) override {
    return cpu_->CopyFrom(source, source_data, data, bytes, stream);
  }
  absl::Status Synchronize(StreamId stream) override { return cpu_->Synchronize(stream); }

 private:
  DeviceInfo info_;
  std::unique_ptr<Backend> cpu_;
  BoundedMemory memory_;
};

}  // namespace

std::unique_ptr<Backend> MakeEmulatedBackend(const EmulatedOptions& options) {
  return std::make_unique<EmulatedBackend>(options);
}

}  // namespace tensord
