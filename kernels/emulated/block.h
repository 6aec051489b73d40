// One launch while it runs: the threads of the current block, who may run, who waits for what. Internal to the executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/emulated/device_collectives.h"
#include "kernels/emulated/executor.h"
#include "kernels/emulated/fiber.h"
#include "kernels/emulated/random.h"

extern thread_local constinit uint3 blockIdx __attribute__((tls_model("initial-exec"), visibility("default")));
extern thread_local constinit dim3 blockDim __attribute__((tls_model("initial-exec"), visibility("default")));
extern thread_local constinit dim3 gridDim __attribute__((tls_model("initial-exec"), visibility("default")));

namespace tensord::emulated {

constexpr int kWarpSize = 32;
constexpr uint32_t kMaxThreads = 1024;

enum class ThreadState : uint8_t { kFresh, kReady, kAtBarrier, kAtCollective, kEnded };

struct Thread {
  Fiber fiber;
  uint3 index = {};
  ThreadState state = ThreadState::kFresh;
  // What it waits for.
  Collective kind = Collective::kSync;
  unsigned mask = 0;
  int source = 0;
  uint64_t value = 0;  // given to the collective, then got from it
  const char* file = nullptr;
  int line = 0;
};

// Lanes as bits.
struct Warp {
  unsigned exist = 0;
  unsigned ready = 0;
  unsigned at_collective = 0;
  unsigned ended = 0;
};

// Shared memory of the running block: one array a key, each followed by a margin that nobody may write.
class SharedMemory {
 public:
  static constexpr size_t kMaxArrays = 32;
  static constexpr size_t kMaxStatic = size_t{48} << 10;
  static constexpr size_t kMaxTotal = size_t{227} << 10;

  // Null where there is no room.
  void* Find(const void* key, size_t bytes, size_t alignment);
  // Ends the block. False where a margin was written: `bytes` is then the size of that array.
  bool Clear(size_t* bytes);
  size_t static_bytes() const { return static_bytes_; }

 private:
  static constexpr size_t kMargin = 64;
  struct Array {
    const void* key;
    char* data;
    size_t bytes;
    size_t mapped;  // with the margin
  };
  char* Take(size_t bytes, size_t alignment);

  Array arrays_[kMaxArrays];
  size_t count_ = 0;
  size_t static_bytes_ = 0;
  char* arena_ = nullptr;
  size_t used_ = 0;
};

class Executor {
 public:
  GridResult Run(const GridLaunch& launch);

  // Called on a kernel's stack.
  void Barrier(const char* file, int line);
  uint64_t Collect(Collective kind, unsigned mask, uint64_t value, int source, const char* file, int line);
  void* Shared(const void* key, size_t bytes, size_t alignment, const char* file, int line);
  void MaybePreempt();
  int Lane() const { return launch_->flat ? 0 : static_cast<int>((thread_ - threads_.data()) % kWarpSize); }
  // Ends the launch from within a kernel; what the text says is completed with kernel, block and thread.
  [[noreturn]] void Break(cudaError_t error, const char* format, ...) __attribute__((format(printf, 3, 4)));

  bool in_kernel() const { return in_kernel_; }
  size_t dynamic_bytes() const { return launch_->shared_bytes; }
  void RunThreadHere();
  void RunFlatHere();

 private:
  // Two threads' accesses are ordered where both pass the same word at barrier or __syncwarp, so words of earlier blocks
  // must not come back soon.
  static constexpr size_t kOrderWords = 8192;

  void RunOnFibers();
  void RunFlat();
  void StartBlock(uint64_t position);
  void RunBlock();
  bool EndBlock();
  Thread& Pick();
  void Resume(Thread& thread);
  bool ReleaseBarrier();
  void Resolve(unsigned first, unsigned mask, Collective kind);
  void LeaveThread(bool ends);
  void GiveStack(Thread& thread);
  void TakeStackBack(Thread& thread);
  void MakeReady(uint32_t thread);
  void ShuffleOrder();
  uint64_t BlockAt(uint64_t position) const;
  void Report(cudaError_t error, const char* text, bool with_thread);
  void* OrderWord(uint64_t salt) { return &order_words_[(block_sequence_ * 40 + salt) % kOrderWords]; }

  const GridLaunch* launch_ = nullptr;
  GridResult result_;
  Random random_;
  Fiber main_;
  bool in_kernel_ = false;

  std::vector<Thread> threads_;
  Warp warps_[kMaxThreads / kWarpSize];
  unsigned ready_warps_ = 0;
  uint32_t count_ = 0;  // threads of a block
  uint32_t ended_ = 0;
  Thread* thread_ = nullptr;  // the running one

  SharedMemory shared_;
  std::vector<Fiber> stacks_;  // unused ones
  size_t stacks_made_ = 0;
  Random stack_random_;  // its own: which stacks there are must not change the order of threads

  // Flat launches: thread indices in the orders they run in.
  std::vector<uint3> orders_;
  uint32_t order_count_ = 0;

  // Random order of blocks: an affine walk through all of them.
  uint64_t blocks_ = 0;
  uint64_t block_factor_ = 1;
  uint64_t block_offset_ = 0;

  uint64_t block_sequence_ = 0;
  uint64_t generation_ = 0;  // barriers the block has passed
  char start_word_ = 0, end_word_ = 0;
  char order_words_[kOrderWords] = {};
};

// The executor that runs on this host thread; null outside of launches.
Executor* CurrentExecutor();
void SetCurrentExecutor(Executor* executor);

// Prepares this host thread for CatchKernelFaults.
void UseFaultStack();

}  // namespace tensord::emulated
