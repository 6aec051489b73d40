// Copies between CUDA devices: directly where the two are peers, else by way of the host.
//
// Thread safety: a copy is made by the destination's executor; the source's may go on meanwhile. Errors: DEVICE_LOST (of
// whichever device it is), INTERNAL.
#pragma once

#include <cstddef>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/staging.h"

namespace tensord::cuda {

// A device as an end of a copy.
struct Endpoint {
  Runtime& runtime;
  Staging& staging;
  cudaStream_t compute;
};

// Which devices this one reads directly; access is opened at the first copy, not before.
class Peers {
 public:
  explicit Peers(Runtime& runtime) : runtime_(runtime) {}

  // Whether this device can read `other`'s memory.
  absl::StatusOr<bool> Open(int other);

 private:
  Runtime& runtime_;
  absl::Mutex mutex_;
  std::map<int, bool> open_ ABSL_GUARDED_BY(mutex_);
};

// Copies `bytes` after what both streams hold, and makes the source's stream wait for it: memory that the source frees
// afterwards is not reused under the copy's feet. May return before the copy is done.
absl::Status CopyBetween(const Endpoint& source, const void* from, const Endpoint& target, void* to, size_t bytes,
                         Peers& peers);

}  // namespace tensord::cuda
