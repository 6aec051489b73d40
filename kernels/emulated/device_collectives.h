// Barriers, shuffles and votes of device code. Part of device.h.
//
// Stricter than hardware where hardware happens to work: a mask names lanes that exist, have not ended and arrive at the
// same call; a barrier is reached by every thread of the block at the same line.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

namespace tensord::emulated {

enum class Collective : uint8_t { kSync, kShuffle, kBallot };

// Where device code calls: told apart by file and line.
#define TENSORD_SITE const char *file = __builtin_FILE(), int line = __builtin_LINE()

#pragma GCC visibility push(default)  // the fake libcudart.so exports these

void BlockBarrier(const char* file, int line);
// Waits until all lanes of `mask` are here. Shuffle: the value of lane `source`. Ballot: the lanes with value != 0.
uint64_t WarpCollective(Collective kind, unsigned mask, uint64_t value, int source, const char* file, int line);
int Lane();

#pragma GCC visibility pop

enum class Shift : uint8_t { kIndex, kXor, kUp, kDown };

// The lane a shuffle reads, by the rules of CUDA's segments of `width` lanes: out of the segment, one reads oneself.
inline int ShuffleSource(Shift shift, int operand, int width) {
  const int lane = Lane();
  const int first = lane & ~(width - 1);
  int source = lane;
  switch (shift) {
    case Shift::kIndex:
      return first | (operand & (width - 1));
    case Shift::kXor:
      source = lane ^ operand;
      break;  // may read an earlier segment, never a later one
    case Shift::kUp:
      source = lane - operand;
      return source < first ? lane : source;
    case Shift::kDown:
      source = lane + operand;
      break;
  }
  return source >= first + width ? lane : source;
}

template <class T>
inline T Shuffle(Shift shift, unsigned mask, T value, int operand, int width, const char* file, int line) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = WarpCollective(Collective::kShuffle, mask, bits, ShuffleSource(shift, operand, width), file, line);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace tensord::emulated

inline void __syncthreads(TENSORD_SITE) { ::tensord::emulated::BlockBarrier(file, line); }
inline void __syncwarp(unsigned mask = 0xffffffffU, TENSORD_SITE) {
  ::tensord::emulated::WarpCollective(::tensord::emulated::Collective::kSync, mask, 0, 0, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, TENSORD_SITE) {
  return static_cast<unsigned>(::tensord::emulated::WarpCollective(::tensord::emulated::Collective::kBallot, mask,
                                                                   predicate != 0 ? 1 : 0, 0, file, line));
}
inline int __any_sync(unsigned mask, int predicate, TENSORD_SITE) {
  return __ballot_sync(mask, predicate, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int predicate, TENSORD_SITE) {
  return __ballot_sync(mask, predicate, file, line) == mask ? 1 : 0;
}

// The types CUDA has shuffles for, and no others: what compiles here compiles there.
#define TENSORD_SHUFFLES(T)                                                                                        \
  inline T __shfl_sync(unsigned mask, T value, int source, int width = 32, TENSORD_SITE) {                         \
    using ::tensord::emulated::Shift;                                                                              \
    return ::tensord::emulated::Shuffle<T>(Shift::kIndex, mask, value, source, width, file, line);                 \
  }                                                                                                                \
  inline T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, TENSORD_SITE) {                       \
    using ::tensord::emulated::Shift;                                                                              \
    return ::tensord::emulated::Shuffle<T>(Shift::kXor, mask, value, bits, width, file, line);                     \
  }                                                                                                                \
  inline T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, TENSORD_SITE) {                  \
    using ::tensord::emulated::Shift;                                                                              \
    return ::tensord::emulated::Shuffle<T>(Shift::kUp, mask, value, static_cast<int>(delta), width, file, line);   \
  }                                                                                                                \
  inline T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, TENSORD_SITE) {                \
    using ::tensord::emulated::Shift;                                                                              \
    return ::tensord::emulated::Shuffle<T>(Shift::kDown, mask, value, static_cast<int>(delta), width, file, line); \
  }
TENSORD_SHUFFLES(int)
TENSORD_SHUFFLES(unsigned)
TENSORD_SHUFFLES(long)
TENSORD_SHUFFLES(unsigned long)
TENSORD_SHUFFLES(long long)
TENSORD_SHUFFLES(unsigned long long)
TENSORD_SHUFFLES(float)
TENSORD_SHUFFLES(double)
#undef TENSORD_SHUFFLES
#undef TENSORD_SITE
