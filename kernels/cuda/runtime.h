// One device as this process uses it: its ordinal, and the latch that a sticky error closes.
//
//   TENSORD_RETURN_IF_ERROR(runtime.Enter());                          // this thread's CUDA calls go to the device
//   TENSORD_RETURN_IF_ERROR(runtime.Check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
//
// CUDA says of a sticky error that every later call in the process repeats it. The latch repeats it for CUDA: after
// DEVICE_LOST nothing here calls the runtime any more, so nothing can hang on a dead device and the first cause stays
// the one that is told.
//
// Thread safety: all of it.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/families.h"

namespace tensord::cuda {

class Runtime {
 public:
  Runtime(int ordinal, const DeviceTraits& traits) : ordinal_(ordinal), traits_(traits) {}

  int ordinal() const { return ordinal_; }
  const DeviceTraits& traits() const { return traits_; }

  // Makes the device the calling thread's. Error: DEVICE_LOST.
  absl::Status Enter();

  // The error of a call as a status: OK for success; DEVICE_LOST (latched, and once latched the first cause) for the
  // sticky ones, MEMORY_EXHAUSTED, INTERNAL. Takes the error out of the thread's last-error slot, so that the next
  // launch is not blamed for it.
  absl::Status Check(cudaError_t error, const char* what);

  // The same for a status that somebody else made of an error: latches DEVICE_LOST.
  absl::Status Observe(absl::Status status);

  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // OK, or the DEVICE_LOST that closed the latch.
  absl::Status Health() const;

 private:
  const int ordinal_;
  const DeviceTraits traits_;
  std::atomic<bool> lost_{false};
  mutable absl::Mutex mutex_;
  absl::Status cause_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::cuda
