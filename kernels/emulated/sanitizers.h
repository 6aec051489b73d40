// What the emulator tells AddressSanitizer and ThreadSanitizer, through symbols that are null where there is none: the
// executor is compiled without sanitizers in every build, and talks to the one that the rest is compiled with.
#pragma once

#include <cstddef>

extern "C" {
#define TENSORD_WEAK __attribute__((weak))
TENSORD_WEAK void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t bytes);
TENSORD_WEAK void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_bytes);
TENSORD_WEAK void __asan_poison_memory_region(const volatile void* data, size_t bytes);
TENSORD_WEAK void __asan_unpoison_memory_region(const volatile void* data, size_t bytes);
TENSORD_WEAK void* __tsan_get_current_fiber();
TENSORD_WEAK void* __tsan_create_fiber(unsigned flags);
TENSORD_WEAK void __tsan_destroy_fiber(void* fiber);
TENSORD_WEAK void __tsan_switch_to_fiber(void* fiber, unsigned flags);
TENSORD_WEAK void __tsan_acquire(void* address);
TENSORD_WEAK void __tsan_release(void* address);
TENSORD_WEAK void AnnotateIgnoreReadsBegin(const char* file, int line);
TENSORD_WEAK void AnnotateIgnoreReadsEnd(const char* file, int line);
TENSORD_WEAK void AnnotateIgnoreWritesBegin(const char* file, int line);
TENSORD_WEAK void AnnotateIgnoreWritesEnd(const char* file, int line);
#undef TENSORD_WEAK
}

namespace tensord::emulated {

inline bool UnderTsan() { return __tsan_create_fiber != nullptr; }
inline bool UnderAsan() { return __asan_poison_memory_region != nullptr; }

inline void Poison(const void* data, size_t bytes) {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(data, bytes);
}
inline void Unpoison(const void* data, size_t bytes) {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(data, bytes);
}
inline void Acquire(void* address) {
  if (__tsan_acquire != nullptr) __tsan_acquire(address);
}
inline void Release(void* address) {
  if (__tsan_release != nullptr) __tsan_release(address);
}

// While it lives ThreadSanitizer records no access of this thread.
class IgnoreAccesses {
 public:
  IgnoreAccesses() {
    if (AnnotateIgnoreReadsBegin == nullptr) return;
    AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
    AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
  }
  ~IgnoreAccesses() {
    if (AnnotateIgnoreReadsBegin == nullptr) return;
    AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  }
  IgnoreAccesses(const IgnoreAccesses&) = delete;
  IgnoreAccesses& operator=(const IgnoreAccesses&) = delete;
};

}  // namespace tensord::emulated
