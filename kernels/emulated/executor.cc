#include "kernels/emulated/executor.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <numeric>

#include "kernels/emulated/block.h"
#include "kernels/emulated/sanitizers.h"

thread_local constinit uint3 threadIdx __attribute__((tls_model("initial-exec"))) = {0, 0, 0};
thread_local constinit uint3 blockIdx __attribute__((tls_model("initial-exec"))) = {0, 0, 0};
thread_local constinit dim3 blockDim __attribute__((tls_model("initial-exec"))) = {};
thread_local constinit dim3 gridDim __attribute__((tls_model("initial-exec"))) = {};

namespace tensord::emulated {
namespace {

thread_local constinit Executor* current_executor __attribute__((tls_model("initial-exec"))) = nullptr;

// ThreadSanitizer knows 8,128 threads at a time, and fibers are dear to make: more than this are drawn from a pool.
constexpr size_t kMaxTsanFibers = 1200;
// Flat launches in random order draw each block's order from so many.
constexpr uint32_t kRandomOrders = 16;

uint3 IndexAt(uint64_t flat, const dim3& extents) {
  return {static_cast<unsigned>(flat % extents.x), static_cast<unsigned>(flat / extents.x % extents.y),
          static_cast<unsigned>(flat / extents.x / extents.y)};
}

void ThreadEntry() { current_executor->RunThreadHere(); }
void FlatEntry() { current_executor->RunFlatHere(); }

}  // namespace

Executor* CurrentExecutor() { return current_executor; }
void SetCurrentExecutor(Executor* executor) { current_executor = executor; }

GridResult Executor::Run(const GridLaunch& launch) {
  launch_ = &launch;
  result_ = GridResult();
  random_ = Random(launch.seed);
  gridDim = launch.grid;
  blockDim = launch.block;
  count_ = launch.block.x * launch.block.y * launch.block.z;
  blocks_ = uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  if (launch.order == Order::kRandom && blocks_ > 1) {
    do block_factor_ = 1 + random_.Below(blocks_);
    while (std::gcd(block_factor_, blocks_) != 1);
    block_offset_ = random_.Below(blocks_);
  }
  if (__tsan_get_current_fiber != nullptr) main_.tsan = __tsan_get_current_fiber();
  const bool in_one_fiber = launch.flat && !launch.fibers;
  if (in_one_fiber) ShuffleOrder();
  Release(&start_word_);  // what the host has written so far every thread of the launch may read
  in_kernel_ = true;
  if (in_one_fiber) {
    RunFlat();
  } else {
    RunOnFibers();
  }
  in_kernel_ = false;
  Acquire(&end_word_);
  launch_ = nullptr;
  return result_;
}

uint64_t Executor::BlockAt(uint64_t position) const {
  switch (launch_->order) {
    case Order::kAscending:
      return position;
    case Order::kDescending:
      return blocks_ - 1 - position;
    case Order::kRandom:
      break;
  }
  if (blocks_ == 1) return 0;
  return static_cast<uint64_t>((static_cast<unsigned __int128>(position) * block_factor_ + block_offset_) % blocks_);
}

// ---- Launches on fibers ----

void Executor::RunOnFibers() {
  if (threads_.size() < count_) threads_.resize(count_);
  for (uint32_t i = 0; i < count_; ++i) threads_[i].index = IndexAt(i, launch_->block);
  for (uint64_t position = 0; position < blocks_ && result_.error == cudaSuccess; ++position) {
    StartBlock(position);
    RunBlock();
    EndBlock();
  }
}

void Executor::StartBlock(uint64_t position) {
  blockIdx = IndexAt(BlockAt(position), launch_->grid);
  ++block_sequence_;
  generation_ = 0;
  ended_ = 0;
  ready_warps_ = 0;
  for (uint32_t first = 0; first < count_; first += kWarpSize) {
    const uint32_t lanes = std::min<uint32_t>(kWarpSize, count_ - first);
    Warp& warp = warps_[first / kWarpSize];
    warp = Warp();
    warp.exist = warp.ready = lanes == kWarpSize ? ~0U : (1U << lanes) - 1;
    ready_warps_ |= 1U << (first / kWarpSize);
  }
  for (uint32_t i = 0; i < count_; ++i) threads_[i].state = ThreadState::kFresh;
}

void Executor::RunBlock() {
  while (ended_ < count_ && result_.error == cudaSuccess) {
    if (ready_warps_ == 0 && !ReleaseBarrier()) return;
    Resume(Pick());
  }
}

bool Executor::EndBlock() {
  if (result_.error != cudaSuccess) {
    // Threads that never ended: their stacks are used again, whatever lies on them.
    for (uint32_t i = 0; i < count_; ++i) {
      if (threads_[i].fiber.stack != nullptr) TakeStackBack(threads_[i]);
    }
  }
  size_t bytes = 0;
  if (shared_.Clear(&bytes) || result_.error != cudaSuccess) return true;
  char text[160];
  std::snprintf(text, sizeof(text), "a write past the end of a shared array of %zu bytes", bytes);
  Report(cudaErrorIllegalAddress, text, false);
  return false;
}

Thread& Executor::Pick() {
  int warp = 0;
  int lane = 0;
  switch (launch_->order) {
    case Order::kAscending:
      warp = __builtin_ctz(ready_warps_);
      lane = __builtin_ctz(warps_[warp].ready);
      break;
    case Order::kDescending:
      warp = 31 - __builtin_clz(ready_warps_);
      lane = 31 - __builtin_clz(warps_[warp].ready);
      break;
    case Order::kRandom: {
      // The first ready one after a random place.
      const uint64_t bits = random_.Next();
      const unsigned after_warp = static_cast<unsigned>(bits) & 31U;
      const unsigned after_lane = static_cast<unsigned>(bits >> 32) & 31U;
      const auto rotated = [](unsigned mask, unsigned by) { return mask >> by | (by == 0 ? 0 : mask << (32 - by)); };
      warp = static_cast<int>((__builtin_ctz(rotated(ready_warps_, after_warp)) + after_warp) & 31U);
      lane = static_cast<int>((__builtin_ctz(rotated(warps_[warp].ready, after_lane)) + after_lane) & 31U);
      break;
    }
  }
  warps_[warp].ready &= ~(1U << lane);
  if (warps_[warp].ready == 0) ready_warps_ &= ~(1U << warp);
  return threads_[static_cast<size_t>(warp * kWarpSize + lane)];
}

void Executor::MakeReady(uint32_t thread) {
  threads_[thread].state = ThreadState::kReady;
  warps_[thread / kWarpSize].ready |= 1U << (thread % kWarpSize);
  ready_warps_ |= 1U << (thread / kWarpSize);
}

void Executor::Resume(Thread& thread) {
  if (thread.state == ThreadState::kFresh) {
    GiveStack(thread);
    if (thread.fiber.stack == nullptr) return Report(cudaErrorLaunchOutOfResources, "no memory for stacks", false);
    // Stacks begin at different cache sets.
    thread.fiber.Prepare(&ThreadEntry, static_cast<size_t>(&thread - threads_.data()) % kWarpSize * 128);
  }
  thread.state = ThreadState::kReady;
  thread_ = &thread;
  threadIdx = thread.index;
  ++result_.switches;
  Switch(main_, thread.fiber);
  thread_ = nullptr;
  if (thread.state == ThreadState::kEnded) {
    ++ended_;
    const auto index = static_cast<uint32_t>(&thread - threads_.data());
    warps_[index / kWarpSize].ended |= 1U << (index % kWarpSize);
    TakeStackBack(thread);
  }
}

void Executor::RunThreadHere() {
  FinishStart(main_);
  Acquire(&start_word_);
  launch_->kernel->run_thread(launch_->arguments);
  thread_->state = ThreadState::kEnded;
  LeaveThread(true);
  __builtin_unreachable();
}

void Executor::LeaveThread(bool ends) {
  Release(&end_word_);  // to the host, after the launch; this may be the last time the thread runs
  Switch(thread_->fiber, main_, ends);
}

// A ThreadSanitizer fiber and its stack are used again only together, and drawn at random: a fiber's accesses are ordered
// among themselves, and threads of neighbouring blocks must not share one as a rule.
void Executor::GiveStack(Thread& thread) {
  if (stacks_.empty() || (UnderTsan() && stacks_made_ < kMaxTsanFibers)) {
    thread.fiber = Fiber();
    if (!thread.fiber.CreateStack()) return;
    if (UnderTsan()) thread.fiber.tsan = __tsan_create_fiber(0);
    ++stacks_made_;
    return;
  }
  if (UnderTsan()) std::swap(stacks_[stack_random_.Below(stacks_.size())], stacks_.back());
  thread.fiber = stacks_.back();
  stacks_.pop_back();
}

void Executor::TakeStackBack(Thread& thread) {
  if (thread.state != ThreadState::kEnded) Unpoison(thread.fiber.stack, thread.fiber.stack_bytes);
  stacks_.push_back(thread.fiber);
  thread.fiber.stack = nullptr;
  thread.fiber.tsan = nullptr;
}

// Nobody can run: either all threads wait at one barrier, which then opens, or the kernel is wrong.
bool Executor::ReleaseBarrier() {
  const Thread* at_barrier = nullptr;
  const Thread* elsewhere = nullptr;
  uint32_t waiting = 0;
  char text[400];
  for (uint32_t i = 0; i < count_; ++i) {
    const Thread& thread = threads_[i];
    if (thread.state == ThreadState::kAtCollective) {
      threadIdx = thread.index;
      std::snprintf(text, sizeof(text), "%s:%d: lane %u waits with mask %08x, but lanes %08x of it never arrive",
                    thread.file, thread.line, i % kWarpSize, thread.mask,
                    thread.mask & ~warps_[i / kWarpSize].at_collective);
      Report(cudaErrorLaunchFailure, text, true);
      return false;
    }
    if (thread.state != ThreadState::kAtBarrier) continue;
    ++waiting;
    if (at_barrier == nullptr) {
      at_barrier = &thread;
    } else if (thread.line != at_barrier->line || std::strcmp(thread.file, at_barrier->file) != 0) {
      elsewhere = &thread;
    }
  }
  if (elsewhere != nullptr || waiting != count_) {
    threadIdx = at_barrier->index;
    int length = std::snprintf(text, sizeof(text), "%s:%d: divergent __syncthreads: %u of %u threads wait",
                               at_barrier->file, at_barrier->line, waiting, count_);
    if (ended_ != 0) {
      length += std::snprintf(text + length, sizeof(text) - static_cast<size_t>(length), ", %u have ended", ended_);
    }
    if (elsewhere != nullptr) {
      std::snprintf(text + length, sizeof(text) - static_cast<size_t>(length), ", some of them at %s:%d",
                    elsewhere->file, elsewhere->line);
    }
    Report(cudaErrorLaunchFailure, text, true);
    return false;
  }
  ++generation_;
  for (uint32_t i = 0; i < count_; ++i) MakeReady(i);
  return true;
}

// ---- Flat launches: one fiber for all, so that a fault leaves the launch the same way ----

void Executor::ShuffleOrder() {
  const auto orders = static_cast<uint32_t>(std::min<uint64_t>(kRandomOrders, blocks_));
  order_count_ = launch_->order == Order::kRandom ? orders : 1;
  orders_.resize(size_t{order_count_} * count_);
  for (uint32_t order = 0; order < order_count_; ++order) {
    uint3* threads = orders_.data() + size_t{order} * count_;
    for (uint32_t i = 0; i < count_; ++i) {
      threads[i] = IndexAt(launch_->order == Order::kDescending ? count_ - 1 - i : i, launch_->block);
    }
    if (launch_->order != Order::kRandom) continue;
    for (uint32_t i = count_; i > 1; --i) std::swap(threads[i - 1], threads[random_.Below(i)]);
  }
}

void Executor::RunFlat() {
  Thread flat;
  GiveStack(flat);
  if (flat.fiber.stack == nullptr) return Report(cudaErrorLaunchOutOfResources, "no memory for a stack", false);
  flat.fiber.Prepare(&FlatEntry, 0);
  thread_ = &flat;
  ++result_.switches;
  Switch(main_, flat.fiber);
  thread_ = nullptr;
  TakeStackBack(flat);
}

void Executor::RunFlatHere() {
  FinishStart(main_);
  Acquire(&start_word_);
  for (uint64_t position = 0; position < blocks_; ++position) {
    blockIdx = IndexAt(BlockAt(position), launch_->grid);
    const size_t order = order_count_ == 1 ? 0 : random_.Below(order_count_);
    launch_->kernel->run_threads(launch_->arguments, orders_.data() + order * count_, count_);
  }
  thread_->state = ThreadState::kEnded;
  LeaveThread(true);
  __builtin_unreachable();
}

// ---- Errors ----

void Executor::Report(cudaError_t error, const char* text, bool with_thread) {
  if (result_.error != cudaSuccess) return;
  result_.error = error;
  char name[160];
  KernelName(*launch_->kernel, name, sizeof(name));
  int length = std::snprintf(result_.text, sizeof(result_.text), "%s, in %s, block (%u,%u,%u)", text, name, blockIdx.x,
                             blockIdx.y, blockIdx.z);
  if (!with_thread || length < 0 || static_cast<size_t>(length) >= sizeof(result_.text)) return;
  std::snprintf(result_.text + length, sizeof(result_.text) - static_cast<size_t>(length), ", thread (%u,%u,%u)",
                threadIdx.x, threadIdx.y, threadIdx.z);
}

void Executor::Break(cudaError_t error, const char* format, ...) {
  char text[400];
  va_list list;
  va_start(list, format);
  std::vsnprintf(text, sizeof(text), format, list);
  va_end(list);
  Report(error, text, true);
  LeaveThread(true);
  __builtin_unreachable();
}

// ---- The pool of executors ----

GridResult RunGrid(const GridLaunch& launch) {
  static std::mutex mutex;
  static std::vector<Executor*>* const unused =
      new std::vector<Executor*>;  // never destroyed: launches may outlive main
  Executor* executor = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!unused->empty()) {
      executor = unused->back();
      unused->pop_back();
    }
  }
  if (executor == nullptr) executor = new Executor;
  UseFaultStack();
  SetCurrentExecutor(executor);
  const GridResult result = executor->Run(launch);
  SetCurrentExecutor(nullptr);
  const std::lock_guard<std::mutex> lock(mutex);
  unused->push_back(executor);
  return result;
}

size_t KernelName(const Kernel& kernel, char* text, size_t size) {
  // "… [with P = {…}; void (* Function)(P ...) = ns::Scale<float>]", and clang's "… [Function = &ns::Scale<float>]".
  const char* name = std::strstr(kernel.signature, "Function)(P ...) = ");
  if (name != nullptr) {
    name += std::strlen("Function)(P ...) = ");
  } else if (name = std::strstr(kernel.signature, "Function = &"); name != nullptr) {
    name += std::strlen("Function = &");
  } else {
    name = kernel.signature;
  }
  size_t length = std::strlen(name);
  if (length > 0 && name[length - 1] == ']') --length;
  length = std::min(length, size - 1);
  std::memcpy(text, name, length);
  text[length] = '\0';
  return length;
}

}  // namespace tensord::emulated
