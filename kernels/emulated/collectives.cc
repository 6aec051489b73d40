// What device code calls while it runs: barriers, warp collectives, shared memory, points of pre-emption.
#include <cstring>

#include "kernels/emulated/block.h"
#include "kernels/emulated/device.h"
#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {
namespace {

bool SameSite(const Thread& a, const Thread& b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}

const char* NameOf(Collective kind) {
  switch (kind) {
    case Collective::kSync:
      return "__syncwarp";
    case Collective::kShuffle:
      return "a shuffle";
    case Collective::kBallot:
      return "a vote";
  }
  return "";
}

}  // namespace

void Executor::Barrier(const char* file, int line) {
  if (launch_->flat) {
    Break(cudaErrorLaunchFailure, "%s:%d: __syncthreads in a flat launch; such a kernel needs TENSORD_LAUNCH", file,
          line);
  }
  Thread& thread = *thread_;
  thread.file = file;
  thread.line = line;
  thread.state = ThreadState::kAtBarrier;
  void* word = OrderWord(generation_ % 8);
  Release(word);
  LeaveThread(false);
  Acquire(word);
}

uint64_t Executor::Collect(Collective kind, unsigned mask, uint64_t value, int source, const char* file, int line) {
  if (launch_->flat) {
    Break(cudaErrorLaunchFailure, "%s:%d: %s in a flat launch; such a kernel needs TENSORD_LAUNCH", file, line,
          NameOf(kind));
  }
  Thread& thread = *thread_;
  const uint32_t index = static_cast<uint32_t>(thread_ - threads_.data());
  const uint32_t first = index / kWarpSize * kWarpSize;
  Warp& warp = warps_[index / kWarpSize];
  const unsigned self = 1U << (index % kWarpSize);
  if ((mask & self) == 0) {
    Break(cudaErrorLaunchFailure, "%s:%d: lane %u calls %s with mask %08x, which does not name it", file, line,
          index % kWarpSize, NameOf(kind), mask);
  }
  if (const unsigned missing = mask & ~warp.exist; missing != 0) {
    Break(cudaErrorLaunchFailure, "%s:%d: mask %08x of %s names lanes %08x, which the block of %u threads has not",
          file, line, mask, NameOf(kind), missing, count_);
  }
  if (const unsigned ended = mask & warp.ended; ended != 0) {
    Break(cudaErrorLaunchFailure, "%s:%d: mask %08x of %s names lanes %08x, which have ended", file, line, mask,
          NameOf(kind), ended);
  }
  thread.kind = kind;
  thread.mask = mask;
  thread.value = value;
  thread.source = source;
  thread.file = file;
  thread.line = line;
  thread.state = ThreadState::kAtCollective;
  warp.at_collective |= self;

  void* word = OrderWord(8 + index / kWarpSize);
  if (kind == Collective::kSync) Release(word);
  if ((warp.at_collective & mask) == mask) {
    for (int lane = 0; lane < kWarpSize; ++lane) {
      if ((mask >> lane & 1U) == 0) continue;
      const Thread& other = threads_[first + static_cast<uint32_t>(lane)];
      if (other.mask == mask && other.kind == kind && SameSite(other, thread)) continue;
      Break(cudaErrorLaunchFailure,
            "%s:%d: lane %u calls %s with mask %08x while lane %d of that mask waits at %s:%d for %s with mask %08x",
            file, line, index % kWarpSize, NameOf(kind), mask, lane, other.file, other.line, NameOf(other.kind),
            other.mask);
    }
    Resolve(first, mask, kind);
    thread.state = ThreadState::kReady;
    warp.ready &= ~self;  // it goes on at once
    if (warp.ready == 0) ready_warps_ &= ~(1U << (index / kWarpSize));
  } else {
    LeaveThread(false);
  }
  if (kind == Collective::kSync) Acquire(word);
  return thread.value;
}

void Executor::Resolve(unsigned first, unsigned mask, Collective kind) {
  uint64_t values[kWarpSize] = {};
  unsigned votes = 0;
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    values[lane] = threads_[first + static_cast<unsigned>(lane)].value;
    if (values[lane] != 0) votes |= 1U << lane;
  }
  for (int lane = 0; lane < kWarpSize; ++lane) {
    if ((mask >> lane & 1U) == 0) continue;
    Thread& thread = threads_[first + static_cast<unsigned>(lane)];
    if (kind == Collective::kShuffle) {
      if (thread.source < 0 || thread.source >= kWarpSize || (mask >> thread.source & 1U) == 0) {
        Break(cudaErrorLaunchFailure, "%s:%d: in a shuffle lane %d reads lane %d, which mask %08x does not name",
              thread.file, thread.line, lane, thread.source, mask);
      }
      thread.value = values[thread.source];
    } else if (kind == Collective::kBallot) {
      thread.value = votes;
    }
    MakeReady(first + static_cast<unsigned>(lane));
  }
  warps_[first / kWarpSize].at_collective &= ~mask;
}

void* Executor::Shared(const void* key, size_t bytes, size_t alignment, const char* file, int line) {
  if (launch_->flat) {
    Break(cudaErrorLaunchFailure, "%s:%d: shared memory in a flat launch; such a kernel needs TENSORD_LAUNCH", file,
          line);
  }
  void* data = shared_.Find(key, bytes, alignment);
  if (data == nullptr || shared_.static_bytes() > SharedMemory::kMaxStatic) {
    Break(cudaErrorLaunchFailure, "%s:%d: no room for %zu bytes of shared memory beside %zu", file, line, bytes,
          shared_.static_bytes());
  }
  return data;
}

void Executor::MaybePreempt() {
  constexpr uint64_t kOneIn = 4;
  if (launch_->order != Order::kRandom || launch_->flat || random_.Below(kOneIn) != 0) return;
  thread_->state = ThreadState::kReady;
  MakeReady(static_cast<uint32_t>(thread_ - threads_.data()));
  LeaveThread(false);
}

void BlockBarrier(const char* file, int line) { CurrentExecutor()->Barrier(file, line); }
uint64_t WarpCollective(Collective kind, unsigned mask, uint64_t value, int source, const char* file, int line) {
  return CurrentExecutor()->Collect(kind, mask, value, source, file, line);
}
int Lane() { return CurrentExecutor()->Lane(); }
void MaybePreempt() { CurrentExecutor()->MaybePreempt(); }
void* SharedArray(const void* key, size_t bytes, size_t alignment, const char* file, int line) {
  return CurrentExecutor()->Shared(key, bytes, alignment, file, line);
}
void* DynamicShared(const char* file, int line) {
  Executor* executor = CurrentExecutor();
  return executor->Shared(nullptr, executor->dynamic_bytes(), 16, file, line);
}

}  // namespace tensord::emulated
