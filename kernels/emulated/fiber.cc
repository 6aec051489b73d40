#include "kernels/emulated/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include "kernels/emulated/sanitizers.h"

namespace tensord::emulated {

bool Fiber::CreateStack() {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  void* mapping = mmap(nullptr, kStackBytes + page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return false;
  mprotect(mapping, page, PROT_NONE);
  stack = static_cast<char*>(mapping) + page;
  stack_bytes = kStackBytes;
  return true;
}

void Fiber::DestroyStack() {
  if (stack == nullptr) return;
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  if (tsan != nullptr) __tsan_destroy_fiber(tsan);
  Unpoison(stack, stack_bytes);
  munmap(stack - page, stack_bytes + page);
  stack = nullptr;
  tsan = nullptr;
}

#if !defined(TENSORD_UCONTEXT_FIBERS)

extern "C" void TensordSwitchStack(void** save, void* load);

// Saves what the System V ABI lets a function keep, changes stacks, and restores. The floating-point control words are
// not saved: nothing here changes them.
asm(R"(
.pushsection .text
.hidden TensordSwitchStack
.globl TensordSwitchStack
.type TensordSwitchStack,@function
TensordSwitchStack:
  .cfi_startproc
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .cfi_endproc
.size TensordSwitchStack,.-TensordSwitchStack
.popsection
)");

void Fiber::Prepare(void (*entry)(), size_t offset) {
  constexpr int kSavedRegisters = 6;
  const uintptr_t top = (reinterpret_cast<uintptr_t>(stack) + stack_bytes - offset) & ~uintptr_t{15};
  void** slot = reinterpret_cast<void**>(top);
  *--slot = nullptr;  // where a caller's return address would be: the entry sees an aligned stack and a trace ends
  *--slot = reinterpret_cast<void*>(entry);
  for (int i = 0; i < kSavedRegisters; ++i) *--slot = nullptr;
  stack_pointer = slot;
}

static inline void SwitchStacks(Fiber& from, Fiber& to) { TensordSwitchStack(&from.stack_pointer, to.stack_pointer); }

#else

void Fiber::Prepare(void (*entry)(), size_t offset) {
  getcontext(&context);
  context.uc_stack.ss_sp = stack;
  context.uc_stack.ss_size = stack_bytes - offset;
  context.uc_link = nullptr;
  makecontext(&context, entry, 0);
}

static inline void SwitchStacks(Fiber& from, Fiber& to) { swapcontext(&from.context, &to.context); }

#endif

void Switch(Fiber& from, Fiber& to, bool ends) {
  void* fake_stack = nullptr;
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(ends ? nullptr : &fake_stack, to.stack, to.stack_bytes);
  }
  constexpr unsigned kNoSync = 1;  // a switch orders nothing: CUDA threads run side by side
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(to.tsan, kNoSync);
  SwitchStacks(from, to);
  if (__sanitizer_finish_switch_fiber != nullptr) __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

void FinishStart(Fiber& starter) {
  if (__sanitizer_finish_switch_fiber == nullptr) return;
  const void* bottom = nullptr;
  size_t bytes = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  starter.stack = static_cast<char*>(const_cast<void*>(bottom));
  starter.stack_bytes = bytes;
}

}  // namespace tensord::emulated
