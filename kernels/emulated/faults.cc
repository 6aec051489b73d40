// Faults of kernels: the signal's handler leaves the faulting fiber for the executor as a thread that ends would.
#include <signal.h>
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "kernels/emulated/block.h"
#include "kernels/emulated/sanitizers.h"

#if defined(__x86_64__)
#include <ucontext.h>
#endif

namespace tensord::emulated {
namespace {

struct Handled {
  int signal;
  struct sigaction previous;
};
Handled handled[] = {{SIGSEGV, {}}, {SIGBUS, {}}, {SIGFPE, {}}};

const char* WhatHappened([[maybe_unused]] int signal, [[maybe_unused]] void* context) {
  if (signal == SIGFPE) return "a division by zero";
#if defined(__x86_64__)
  constexpr greg_t kWrite = 2;
  const auto* machine = static_cast<const ucontext_t*>(context);
  if (signal == SIGSEGV) {
    return (machine->uc_mcontext.gregs[REG_ERR] & kWrite) != 0 ? "an illegal write" : "an illegal read";
  }
#endif
  return "an illegal access";
}

void OnFault(int signal, siginfo_t* info, void* context) {
  Executor* executor = CurrentExecutor();
  if (executor != nullptr && executor->in_kernel()) {
    if (signal == SIGFPE) executor->Break(cudaErrorLaunchFailure, "%s", WhatHappened(signal, context));
    executor->Break(cudaErrorIllegalAddress, "%s at %p", WhatHappened(signal, context), info->si_addr);
  }
  // Not ours: as if we were not here.
  for (const Handled& one : handled) {
    if (one.signal != signal) continue;
    if ((one.previous.sa_flags & SA_SIGINFO) != 0) return one.previous.sa_sigaction(signal, info, context);
    if (one.previous.sa_handler != SIG_DFL && one.previous.sa_handler != SIG_IGN) {
      return one.previous.sa_handler(signal);
    }
    sigaction(signal, &one.previous, nullptr);  // the faulting instruction runs again and ends the process
  }
}

// The handler's stack: a fault may be the overflow of the fiber's own.
class FaultStack {
 public:
  FaultStack() {
    data_ = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) return;
    stack_t stack = {};
    stack.ss_sp = data_;
    stack.ss_size = kBytes;
    sigaltstack(&stack, &previous_);
  }
  ~FaultStack() {
    if (data_ == MAP_FAILED) return;
    sigaltstack(&previous_, nullptr);
    munmap(data_, kBytes);
  }

 private:
  static constexpr size_t kBytes = size_t{64} << 10;
  void* data_ = nullptr;
  stack_t previous_ = {};
};

bool SanitizersReportFaults() { return UnderAsan() || UnderTsan(); }

}  // namespace

void CatchKernelFaults() {
  if (SanitizersReportFaults()) return;
  static std::once_flag once;
  std::call_once(once, [] {
    for (Handled& one : handled) {
      struct sigaction action = {};
      action.sa_sigaction = &OnFault;
      // The handler never returns for a kernel's fault, so the signal must not stay blocked.
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
      sigaction(one.signal, &action, &one.previous);
    }
  });
}

void UseFaultStack() {
  if (SanitizersReportFaults()) return;
  static thread_local FaultStack stack;
}

}  // namespace tensord::emulated
