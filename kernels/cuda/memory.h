// The device's raw memory, by cudaMalloc: no cache, no limit; the pool on top makes it fast.
//
// Thread safe. Sizes in bytes. Errors: MEMORY_EXHAUSTED with the device's own numbers, DEVICE_LOST. Blocks of a lost
// device are only counted when they come back: its driver is not called any more.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "kernels/core/memory_resource.h"
#include "kernels/cuda/runtime.h"

namespace tensord::cuda {

class DeviceMemory final : public MemoryResource {
 public:
  // `compute` is the stream that used a block before it came back. Both outlive this.
  DeviceMemory(Runtime& runtime, cudaStream_t compute, size_t total)
      : runtime_(runtime), compute_(compute), total_(total) {}

  absl::StatusOr<void*> Allocate(size_t bytes, StreamId stream) override;
  void Deallocate(void* block, size_t bytes, StreamId stream) override;
  // `free` is the device's, whoever holds the rest; no larger block can be promised than that.
  MemoryStats Stats() const override;

 private:
  int64_t Free() const;  // -1: cannot be told

  Runtime& runtime_;
  const cudaStream_t compute_;
  const size_t total_;
  mutable absl::Mutex mutex_;
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t peak_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t allocations_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tensord::cuda
