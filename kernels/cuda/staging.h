// Bytes between host and device by way of pinned memory, which alone the copy engines reach while kernels run.
//
//   TENSORD_RETURN_IF_ERROR(staging.Upload(device, host, bytes, compute_stream));   // done when it returns
//
// A transfer takes a lane: a copy stream and two pinned chunks, one being copied by the processor while the device
// copies the other. Lanes are made when first needed and there are few, so the pinned memory is bounded
// (kLanes * 2 * kChunk); who comes while all are taken waits. Where the system refuses to pin memory, the driver stages
// the transfer itself.
//
// Thread safety: any thread at any time. Sizes in bytes. Errors: DEVICE_LOST, INTERNAL.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/synchronization/mutex.h"
#include "kernels/cuda/runtime.h"

namespace tensord::cuda {

class Staging {
 public:
  static constexpr size_t kChunk = size_t{4} << 20;
  static constexpr size_t kLanes = 4;

  explicit Staging(Runtime& runtime) : runtime_(runtime) {}
  // No transfer is under way any more.
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // Ordered after what `after` (a stream of this device) holds.
  absl::Status Upload(void* device, const void* host, size_t bytes, cudaStream_t after);
  absl::Status Download(void* host, const void* device, size_t bytes, cudaStream_t after);

  // Bytes that `read` brings chunk by chunk into host memory: read(to, offset, bytes).
  using Reader = absl::FunctionRef<absl::Status(void* to, size_t offset, size_t bytes)>;
  absl::Status UploadFrom(Reader read, void* device, size_t bytes, cudaStream_t after);

 private:
  struct Lane {
    cudaStream_t stream = nullptr;
    cudaEvent_t order = nullptr;  // recorded on the stream that a transfer comes after
    struct Chunk {
      void* data = nullptr;
      cudaEvent_t copied = nullptr;
    } chunks[2];
  };
  class Loan;

  Lane* Take() ABSL_LOCKS_EXCLUDED(mutex_);
  void GiveBack(Lane* lane) ABSL_LOCKS_EXCLUDED(mutex_);
  // Makes what the lane lacks for `chunks` chunks; `pinned` is false where they cannot be had.
  absl::Status Prepare(Lane& lane, size_t chunks, bool& pinned);
  absl::Status Begin(Lane& lane, cudaStream_t after);
  absl::Status Wait(Lane::Chunk& chunk);

  Runtime& runtime_;
  absl::Mutex mutex_;
  std::vector<std::unique_ptr<Lane>> lanes_ ABSL_GUARDED_BY(mutex_);
  std::vector<Lane*> idle_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensord::cuda
