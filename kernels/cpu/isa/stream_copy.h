// Copies past the cache, for results too large to be found in it again: the memory is not read before it is written.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace tensord::cpu {

// Both 16-byte aligned where it matters; anything else is copied as usual. Others see the bytes after StreamFence.
inline void StreamCopy(void* to, const void* from, size_t bytes) {
#ifdef __SSE2__
  if (reinterpret_cast<uintptr_t>(to) % 16 == 0 && bytes % 64 == 0) {
    auto* out = static_cast<__m128i*>(to);
    const auto* in = static_cast<const __m128i*>(from);
    for (size_t i = 0; i < bytes / 16; i += 4) {
      const __m128i a = _mm_loadu_si128(in + i);
      const __m128i b = _mm_loadu_si128(in + i + 1);
      const __m128i c = _mm_loadu_si128(in + i + 2);
      const __m128i d = _mm_loadu_si128(in + i + 3);
      _mm_stream_si128(out + i, a);
      _mm_stream_si128(out + i + 1, b);
      _mm_stream_si128(out + i + 2, c);
      _mm_stream_si128(out + i + 3, d);
    }
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

inline void StreamFence() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace tensord::cpu
