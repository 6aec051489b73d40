#include "kernels/cuda/peers.h"

#include "kernels/core/error.h"

namespace tensord::cuda {
namespace {

// Makes `second` wait for what `first` holds now; the two may be of different devices. An event belongs to the device
// it is recorded on, and may be destroyed while somebody still waits for it.
absl::Status Order(Runtime& first_runtime, cudaStream_t first, Runtime& second_runtime, cudaStream_t second) {
  TENSORD_RETURN_IF_ERROR(first_runtime.Enter());
  cudaEvent_t event = nullptr;
  TENSORD_RETURN_IF_ERROR(
      first_runtime.Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  absl::Status status = first_runtime.Check(cudaEventRecord(event, first), "cudaEventRecord");
  if (status.ok()) status = second_runtime.Enter();
  if (status.ok()) status = second_runtime.Check(cudaStreamWaitEvent(second, event), "cudaStreamWaitEvent");
  if (first_runtime.Enter().ok()) first_runtime.Check(cudaEventDestroy(event), "cudaEventDestroy").IgnoreError();
  return status;
}

}  // namespace

absl::StatusOr<bool> Peers::Open(int other) {
  TENSORD_RETURN_IF_ERROR(runtime_.Enter());
  absl::MutexLock lock(&mutex_);
  if (const auto known = open_.find(other); known != open_.end()) return known->second;
  int can = 0;
  TENSORD_RETURN_IF_ERROR(
      runtime_.Check(cudaDeviceCanAccessPeer(&can, runtime_.ordinal(), other), "cudaDeviceCanAccessPeer"));
  if (can != 0) {
    const cudaError_t error = cudaDeviceEnablePeerAccess(other, 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled || error == cudaErrorPeerAccessUnsupported ||
        error == cudaErrorTooManyPeers) {
      cudaGetLastError();
      can = error == cudaErrorPeerAccessAlreadyEnabled ? 1 : 0;
    } else {
      TENSORD_RETURN_IF_ERROR(runtime_.Check(error, "cudaDeviceEnablePeerAccess"));
    }
  }
  return open_[other] = can != 0;
}

absl::Status CopyBetween(const Endpoint& source, const void* from, const Endpoint& target, void* to, size_t bytes,
                         Peers& peers) {
  bool direct = source.runtime.ordinal() == target.runtime.ordinal();
  if (!direct) {
    TENSORD_ASSIGN_OR_RETURN(direct, peers.Open(source.runtime.ordinal()));
  }
  if (!direct) {
    // Each chunk is read after the source's stream and is in host memory before it goes on, so nothing is left to order.
    const auto read = [&](void* chunk, size_t offset, size_t count) {
      return source.staging.Download(chunk, static_cast<const char*>(from) + offset, count, source.compute);
    };
    return target.staging.UploadFrom(read, to, bytes, target.compute);
  }
  TENSORD_RETURN_IF_ERROR(Order(source.runtime, source.compute, target.runtime, target.compute));
  TENSORD_RETURN_IF_ERROR(target.runtime.Enter());
  TENSORD_RETURN_IF_ERROR(target.runtime.Check(
      cudaMemcpyPeerAsync(to, target.runtime.ordinal(), from, source.runtime.ordinal(), bytes, target.compute),
      "cudaMemcpyPeerAsync"));
  absl::Status ordered = Order(target.runtime, target.compute, source.runtime, source.compute);
  if (ordered.ok() || target.runtime.lost()) return target.runtime.lost() ? target.runtime.Health() : ordered;
  // The source cannot be told to wait, so this thread does.
  TENSORD_RETURN_IF_ERROR(target.runtime.Enter());
  return target.runtime.Check(cudaStreamSynchronize(target.compute), "cudaStreamSynchronize of a copy");
}

}  // namespace tensord::cuda
