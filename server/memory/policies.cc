// The decorators that count and that refuse.
#include <algorithm>
#include <atomic>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/error.h"
#include "server/memory/memory.h"

namespace tensord {
namespace {

class Statistics final : public MemoryResource {
 public:
  explicit Statistics(MemoryResource& upstream) : upstream_(upstream) {}

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override {
    TENSORD_ASSIGN_OR_RETURN(void* block, upstream_.Allocate(bytes, stream));
    const int64_t used = used_.fetch_add(static_cast<int64_t>(bytes)) + static_cast<int64_t>(bytes);
    allocations_.fetch_add(1, std::memory_order_relaxed);
    int64_t peak = peak_.load();
    while (peak < used && !peak_.compare_exchange_weak(peak, used)) {
    }
    return block;
  }

  void Deallocate(void* block, size_t bytes, StreamId stream) override {
    used_.fetch_sub(static_cast<int64_t>(bytes));
    upstream_.Deallocate(block, bytes, stream);
  }

  size_t Trim() override { return upstream_.Trim(); }

  MemoryStats Stats() const override {
    MemoryStats stats = upstream_.Stats();
    stats.used = used_.load();
    stats.peak = peak_.load();
    stats.allocations = allocations_.load();
    return stats;
  }

 private:
  MemoryResource& upstream_;
  std::atomic<int64_t> used_{0};
  std::atomic<int64_t> peak_{0};
  std::atomic<uint64_t> allocations_{0};
};

class Limit final : public MemoryResource {
 public:
  Limit(MemoryResource& upstream, std::string device, size_t limit)
      : upstream_(upstream), device_(std::move(device)), limit_(limit) {}

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override {
    {
      absl::MutexLock lock(&mutex_);
      if (limit_ > 0 && (bytes > limit_ || used_ > limit_ - bytes)) return Refuse(bytes);
      used_ += bytes;
    }
    absl::StatusOr<void*> block = upstream_.Allocate(bytes, stream);
    if (block.ok()) return block;
    absl::MutexLock lock(&mutex_);
    used_ -= bytes;
    if (ReasonOf(block.status()) != Reason::kMemoryExhausted) return block;
    return Refuse(bytes);
  }

  void Deallocate(void* block, size_t bytes, StreamId stream) override {
    upstream_.Deallocate(block, bytes, stream);
    absl::MutexLock lock(&mutex_);
    used_ -= bytes;
  }

  size_t Trim() override { return upstream_.Trim(); }

  MemoryStats Stats() const override {
    MemoryStats stats = upstream_.Stats();
    if (limit_ == 0) return stats;
    absl::MutexLock lock(&mutex_);
    const auto limit = static_cast<int64_t>(limit_);
    const int64_t left = limit - static_cast<int64_t>(used_);
    if (stats.total > limit) stats.limit = limit;
    // `free` stays the device's: others may hold the rest, and what is in use is told from it.
    if (stats.largest_free > left) stats.largest_free = left;
    return stats;
  }

 private:
  // Every refusal leaves with the device's numbers, whoever below gave it.
  absl::Status Refuse(size_t bytes) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const MemoryStats stats = upstream_.Stats();
    const uint64_t left = limit_ > used_ ? limit_ - used_ : 0;
    const auto free = static_cast<uint64_t>(stats.free < 0 ? 0 : stats.free);
    ErrorShortage shortage;
    shortage.device = device_;
    shortage.requested = bytes;
    shortage.free = limit_ > 0 ? std::min(left, free + static_cast<uint64_t>(stats.cached)) : free;
    shortage.cached = static_cast<uint64_t>(stats.cached);
    shortage.largest_free = std::min(static_cast<uint64_t>(stats.largest_free), shortage.free);
    shortage.limit = limit_;
    Error error = Error(Reason::kMemoryExhausted)
                      .With("device", device_)
                      .With("requested", bytes)
                      .With("free", shortage.free)
                      .With("cached", shortage.cached);
    if (limit_ > 0) error.With("limit", limit_);
    return std::move(error).Shortage(std::move(shortage));
  }

  MemoryResource& upstream_;
  const std::string device_;
  const size_t limit_;
  mutable absl::Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<MemoryResource> MakeStatistics(MemoryResource& upstream) {
  return std::make_unique<Statistics>(upstream);
}

std::unique_ptr<MemoryResource> MakeLimit(MemoryResource& upstream, std::string device, size_t limit_bytes) {
  return std::make_unique<Limit>(upstream, std::move(device), limit_bytes);
}

}  // namespace tensord
