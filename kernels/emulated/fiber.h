// Fibers: a stack of its own each, switched by hand, never moved to another host thread while one runs.
//
//   Fiber fiber, here;
//   fiber.CreateStack();
//   fiber.Prepare(entry, 0);   // entry() starts when first switched to; it never returns
//   Switch(here, fiber);       // back here when somebody switches to `here`
//
// AddressSanitizer and ThreadSanitizer are told of every switch. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>

// -DTENSORD_UCONTEXT_FIBERS takes the portable switch, slower by two system calls, everywhere.
#if !defined(__x86_64__) && !defined(TENSORD_UCONTEXT_FIBERS)
#define TENSORD_UCONTEXT_FIBERS
#endif
#if defined(TENSORD_UCONTEXT_FIBERS)
#include <ucontext.h>
#endif

namespace tensord::emulated {

struct Fiber {
  static constexpr size_t kStackBytes = size_t{128} << 10;

  // Maps a stack with a guard page below it. False where the system refuses.
  bool CreateStack();
  void DestroyStack();
  // `offset` bytes of the stack's top stay unused: fibers that start at different offsets share fewer cache sets.
  void Prepare(void (*entry)(), size_t offset);

  char* stack = nullptr;  // lowest usable byte
  size_t stack_bytes = 0;
  void* tsan = nullptr;  // ThreadSanitizer's fiber; goes with the stack
#if !defined(TENSORD_UCONTEXT_FIBERS)
  void* stack_pointer = nullptr;
#else
  ucontext_t context;
#endif
};

// Leaves `from` for `to`. `ends`: `from` is never switched to again. To be called on the stack of `from`.
void Switch(Fiber& from, Fiber& to, bool ends = false);
// The first thing a fiber does: `starter` is the fiber that switched here, whose stack AddressSanitizer now tells.
void FinishStart(Fiber& starter);

}  // namespace tensord::emulated
