#include "kernels/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "kernels/core/error.h"

namespace tensord::cuda {

// A lane for the time of a transfer. Ends it: nothing of the device writes to host memory after a transfer returned,
// whatever it returned.
class Staging::Loan {
 public:
  explicit Loan(Staging& staging) : staging_(staging), lane_(staging.Take()) {}
  ~Loan() {
    if (!settled_ && lane_->stream != nullptr && staging_.runtime_.Enter().ok()) {
      staging_.runtime_.Check(cudaStreamSynchronize(lane_->stream), "cudaStreamSynchronize").IgnoreError();
    }
    staging_.GiveBack(lane_);
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  Lane& lane() { return *lane_; }
  // Waits for all of the lane's work.
  absl::Status Settle() {
    settled_ = true;
    return staging_.runtime_.Check(cudaStreamSynchronize(lane_->stream), "cudaStreamSynchronize of a transfer");
  }

 private:
  Staging& staging_;
  Lane* lane_;
  bool settled_ = false;
};

Staging::~Staging() {
  runtime_.Enter().IgnoreError();
  if (runtime_.lost()) return;  // what a lost device holds goes with the process
  absl::MutexLock lock(&mutex_);
  for (const std::unique_ptr<Lane>& lane : lanes_) {
    for (const Lane::Chunk& chunk : lane->chunks) {
      if (chunk.copied != nullptr) runtime_.Check(cudaEventDestroy(chunk.copied), "cudaEventDestroy").IgnoreError();
      if (chunk.data != nullptr) runtime_.Check(cudaFreeHost(chunk.data), "cudaFreeHost").IgnoreError();
    }
    if (lane->order != nullptr) runtime_.Check(cudaEventDestroy(lane->order), "cudaEventDestroy").IgnoreError();
    if (lane->stream != nullptr) runtime_.Check(cudaStreamDestroy(lane->stream), "cudaStreamDestroy").IgnoreError();
  }
}

Staging::Lane* Staging::Take() {
  absl::MutexLock lock(&mutex_);
  const auto ready = [this]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !idle_.empty() || lanes_.size() < kLanes; };
  mutex_.Await(absl::Condition(&ready));
  if (idle_.empty()) return lanes_.emplace_back(std::make_unique<Lane>()).get();
  Lane* lane = idle_.back();  // the last used: its chunks are warm
  idle_.pop_back();
  return lane;
}

void Staging::GiveBack(Lane* lane) {
  absl::MutexLock lock(&mutex_);
  idle_.push_back(lane);
}

absl::Status Staging::Prepare(Lane& lane, size_t chunks, bool& pinned) {
  pinned = true;
  if (lane.stream == nullptr) {
    TENSORD_RETURN_IF_ERROR(runtime_.Check(cudaStreamCreateWithFlags(&lane.stream, cudaStreamNonBlocking),
                                           "cudaStreamCreateWithFlags for transfers"));
  }
  if (lane.order == nullptr) {
    TENSORD_RETURN_IF_ERROR(
        runtime_.Check(cudaEventCreateWithFlags(&lane.order, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  }
  for (size_t i = 0; i < std::min<size_t>(chunks, 2); ++i) {
    Lane::Chunk& chunk = lane.chunks[i];
    if (chunk.copied == nullptr) {
      // Long transfers wait asleep: a spinning thread would take a core from the transport.
      TENSORD_RETURN_IF_ERROR(
          runtime_.Check(cudaEventCreateWithFlags(&chunk.copied, cudaEventDisableTiming | cudaEventBlockingSync),
                         "cudaEventCreateWithFlags"));
    }
    if (chunk.data == nullptr) {
      const cudaError_t error = cudaHostAlloc(&chunk.data, kChunk, cudaHostAllocPortable);
      if (error == cudaErrorMemoryAllocation) {
        cudaGetLastError();
        chunk.data = nullptr;
        pinned = i > 0;  // one chunk is slower, but does
        return absl::OkStatus();
      }
      TENSORD_RETURN_IF_ERROR(runtime_.Check(error, "cudaHostAlloc for transfers"));
    }
  }
  return absl::OkStatus();
}

absl::Status Staging::Begin(Lane& lane, cudaStream_t after) {
  TENSORD_RETURN_IF_ERROR(runtime_.Check(cudaEventRecord(lane.order, after), "cudaEventRecord"));
  return runtime_.Check(cudaStreamWaitEvent(lane.stream, lane.order), "cudaStreamWaitEvent");
}

absl::Status Staging::Wait(Lane::Chunk& chunk) {
  return runtime_.Check(cudaEventSynchronize(chunk.copied), "cudaEventSynchronize of a transfer");
}

absl::Status Staging::Upload(void* device, const void* host, size_t bytes, cudaStream_t after) {
  return UploadFrom(
      [host](void* to, size_t offset, size_t count) {
        std::memcpy(to, static_cast<const char*>(host) + offset, count);
        return absl::OkStatus();
      },
      device, bytes, after);
}

absl::Status Staging::UploadFrom(Reader read, void* device, size_t bytes, cudaStream_t after) {
  if (bytes == 0) return runtime_.Health();
  TENSORD_RETURN_IF_ERROR(runtime_.Enter());
  Loan loan(*this);
  Lane& lane = loan.lane();
  bool pinned = false;
  TENSORD_RETURN_IF_ERROR(Prepare(lane, (bytes - 1) / kChunk + 1, pinned));
  TENSORD_RETURN_IF_ERROR(Begin(lane, after));
  const size_t ring = lane.chunks[1].data != nullptr ? 2 : 1;
  std::vector<char> pageable;  // instead of pinned memory
  if (!pinned) pageable.resize(std::min(bytes, kChunk));
  size_t turn = 0;
  for (size_t offset = 0; offset < bytes; offset += kChunk, ++turn) {
    const size_t count = std::min(kChunk, bytes - offset);
    Lane::Chunk& chunk = lane.chunks[turn % ring];
    if (turn >= ring) TENSORD_RETURN_IF_ERROR(Wait(chunk));
    void* from = pinned ? chunk.data : pageable.data();
    TENSORD_RETURN_IF_ERROR(read(from, offset, count));
    // `read` may have gone to another device.
    TENSORD_RETURN_IF_ERROR(runtime_.Enter());
    TENSORD_RETURN_IF_ERROR(runtime_.Check(
        cudaMemcpyAsync(static_cast<char*>(device) + offset, from, count, cudaMemcpyHostToDevice, lane.stream),
        "cudaMemcpyAsync to the device"));
    TENSORD_RETURN_IF_ERROR(runtime_.Check(cudaEventRecord(chunk.copied, lane.stream), "cudaEventRecord"));
  }
  return loan.Settle();
}

absl::Status Staging::Download(void* host, const void* device, size_t bytes, cudaStream_t after) {
  if (bytes == 0) return runtime_.Health();
  TENSORD_RETURN_IF_ERROR(runtime_.Enter());
  Loan loan(*this);
  Lane& lane = loan.lane();
  bool pinned = false;
  TENSORD_RETURN_IF_ERROR(Prepare(lane, (bytes - 1) / kChunk + 1, pinned));
  TENSORD_RETURN_IF_ERROR(Begin(lane, after));
  if (!pinned) {
    TENSORD_RETURN_IF_ERROR(runtime_.Check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, lane.stream),
                                           "cudaMemcpyAsync to the host"));
    return loan.Settle();
  }
  const size_t ring = lane.chunks[1].data != nullptr ? 2 : 1;
  const size_t turns = (bytes - 1) / kChunk + 1;
  // The device fills chunk `turn` while the processor empties the one before.
  const auto issue = [&](size_t turn) {
    Lane::Chunk& chunk = lane.chunks[turn % ring];
    const size_t offset = turn * kChunk;
    TENSORD_RETURN_IF_ERROR(
        runtime_.Check(cudaMemcpyAsync(chunk.data, static_cast<const char*>(device) + offset,
                                       std::min(kChunk, bytes - offset), cudaMemcpyDeviceToHost, lane.stream),
                       "cudaMemcpyAsync to the host"));
    return runtime_.Check(cudaEventRecord(chunk.copied, lane.stream), "cudaEventRecord");
  };
  for (size_t turn = 0; turn < std::min(ring, turns); ++turn) TENSORD_RETURN_IF_ERROR(issue(turn));
  for (size_t turn = 0; turn < turns; ++turn) {
    Lane::Chunk& chunk = lane.chunks[turn % ring];
    if (turn + 1 < turns) {
      TENSORD_RETURN_IF_ERROR(Wait(chunk));
    } else {
      TENSORD_RETURN_IF_ERROR(loan.Settle());  // short transfers do not sleep
    }
    const size_t offset = turn * kChunk;
    std::memcpy(static_cast<char*>(host) + offset, chunk.data, std::min(kChunk, bytes - offset));
    if (turn + ring < turns) TENSORD_RETURN_IF_ERROR(issue(turn + ring));
  }
  return absl::OkStatus();
}

}  // namespace tensord::cuda
