#include "kernels/cuda/memory.h"

#include <algorithm>
#include <utility>

#include "kernels/core/error.h"

namespace tensord::cuda {

absl::StatusOr<void*> DeviceMemory::Allocate(size_t bytes, StreamId /*stream*/) {
  TENSORD_RETURN_IF_ERROR(runtime_.Enter());
  void* block = nullptr;
  if (const cudaError_t error = cudaMalloc(&block, bytes); error != cudaSuccess) {
    absl::Status status = runtime_.Check(error, "cudaMalloc");
    if (error != cudaErrorMemoryAllocation || runtime_.lost()) return status;
    const auto free = static_cast<uint64_t>(std::max<int64_t>(Free(), 0));
    ErrorShortage shortage;
    shortage.device = runtime_.traits().id.ToString();
    shortage.requested = bytes;
    shortage.free = free;
    shortage.largest_free = free;
    shortage.limit = total_;
    return Error(Reason::kMemoryExhausted)
        .With("device", shortage.device)
        .With("requested", bytes)
        .With("free", free)
        .With("cached", 0)
        .Shortage(shortage);
  }
  absl::MutexLock lock(&mutex_);
  used_ += bytes;
  peak_ = std::max(peak_, used_);
  ++allocations_;
  return block;
}

void DeviceMemory::Deallocate(void* block, size_t bytes, StreamId /*stream*/) {
  // cudaFree waits for the device in practice, but only this is promised. A call that fails without taking the device
  // along keeps nobody from the next.
  runtime_.Enter().IgnoreError();
  if (!runtime_.lost()) {
    runtime_.Check(cudaStreamSynchronize(compute_), "cudaStreamSynchronize before cudaFree").IgnoreError();
  }
  if (!runtime_.lost()) runtime_.Check(cudaFree(block), "cudaFree").IgnoreError();
  absl::MutexLock lock(&mutex_);
  used_ -= bytes;
}

int64_t DeviceMemory::Free() const {
  size_t free = 0;
  size_t total = 0;
  if (!runtime_.Enter().ok() || !runtime_.Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo").ok()) return -1;
  return static_cast<int64_t>(free);
}

MemoryStats DeviceMemory::Stats() const {
  MemoryStats stats;
  stats.total = static_cast<int64_t>(total_);
  stats.free = Free();
  stats.largest_free = std::max<int64_t>(stats.free, 0);
  absl::MutexLock lock(&mutex_);
  stats.used = static_cast<int64_t>(used_);
  stats.peak = static_cast<int64_t>(peak_);
  stats.allocations = allocations_;
  return stats;
}

}  // namespace tensord::cuda
